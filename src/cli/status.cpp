// The whole on one screen: what there is, what is red, and what to do about it.

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/listings.hpp"
#include "cli/operate.hpp"

namespace baton::cli {

namespace {

struct Section {
    const char* name;  // in the JSON
    const char* operation;
    const std::vector<Column>* columns;
    const char* command;  // that lists them all
};

// How much of each list, and of what is wrong, one screen shows.
constexpr std::size_t most_shown = 20;

const Section sections[] = {{"outboxes", "list_outboxes", &outbox_columns, "baton outboxes"},
                            {"groups", "list_groups", &group_columns, "baton groups"},
                            {"pipelines", "list_pipelines", &pipeline_columns, "baton pipelines list"},
                            {"inboxes", "list_inboxes", &inbox_columns, "baton inboxes"},
                            {"stream_tables", "list_stream_tables", &stream_columns, "baton streams"}};

void print_server(const Screen& screen, const Json& server, const Target& target) {
    const std::string form = server["form"] == "sql"       ? "plain SQL"
                             : server["preloaded"] == true ? "extension, preloaded"
                                                           : "extension, not preloaded";
    // 15.20, without the words of whoever built it
    const std::string version = show(server["postgresql"]);
    std::cout << toned(screen, Tone::strong, "baton " + show(server["installed"])) << " (" << form
              << ") in PostgreSQL " << version.substr(0, version.find(' '))
              << (server["standby"] == true ? ", a standby" : "") << "\n"
              << toned(screen, Tone::faint,
                       "database \"" + show(server["database"]) + "\" as \"" + show(server["user"]) + "\", " +
                           describe(target))
              << "\n";
}

// Commands of findings are typed as they stand: say where, when the server was named on this command line
// only.
void print_where(const Screen& screen, const Json& findings, const Target& target) {
    bool ours = false, sql = false;
    for (const auto& finding : findings) {
        const bool command = show(finding["fix"]).starts_with("baton ");
        (command ? ours : sql) = true;
    }
    if (sql)
        std::cout << toned(screen, Tone::faint,
                           "\nwhat ends with a semicolon is SQL, for psql in this database\n");
    if (ours && (!target.db.empty() || !target.data_dir.empty()))
        std::cout << toned(screen, Tone::faint,
                           std::string(sql ? "" : "\n") + "baton's commands need the same " +
                               (target.db.empty() ? "--data-dir" : "--db, or it in BATON_DB") + "\n");
}

std::string counted(std::size_t count) {
    return show(Json(count), Form::count);
}

// The list, or the worst of it and how much is left out.
void print_section(const Screen& screen, const Section& section, const Json& items) {
    const Json shown = worst_of(items, most_shown);
    print_table(std::cout, screen, shown, *section.columns);
    if (shown.size() == items.size()) return;
    const auto red =
        std::count_if(items.begin(), items.end(), is_red) - std::count_if(shown.begin(), shown.end(), is_red);
    std::cout << toned(screen, red > 0 ? Tone::bad : Tone::faint,
                       "and " + counted(items.size() - shown.size()) + " more" +
                           (red > 0 ? ", " + counted(static_cast<std::size_t>(red)) + " of them red" : "") +
                           ": " + section.command)
              << "\n";
}

// The errors first, where there is too much.
void print_worst_findings(const Screen& screen, const Json& findings) {
    if (findings.size() <= most_shown) return print_findings(std::cout, screen, findings);
    Json shown = Json::array();
    for (const char* severity : {"error", "warning"})
        for (const auto& finding : findings)
            if (shown.size() < most_shown && finding["severity"] == severity) shown.push_back(finding);
    print_findings(std::cout, screen, shown);
    std::cout << toned(screen, Tone::bad,
                       "and " + counted(findings.size() - shown.size()) +
                           " more that need somebody: baton doctor")
              << "\n";
}

int status(const Asked& asked) {
    Operator with(asked.target);
    Json all = with.look("overview");
    for (const auto& section : sections) all[section.name] = with.look_at_all(section.operation);
    if (asked.json) {
        std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
        return done;
    }
    const auto screen = Screen::of_stdout();
    print_server(screen, all["server"], asked.target);
    bool something = false;
    for (const auto& section : sections) {
        if (all[section.name].empty()) continue;
        something = true;
        std::cout << "\n";
        print_section(screen, section, all[section.name]);
    }
    std::cout << "\n";
    if (!all["findings"].empty()) {
        print_worst_findings(screen, all["findings"]);
        print_where(screen, all["findings"], asked.target);
    } else if (something) {
        std::cout << toned(screen, Tone::good, "all good") << "\n";
    } else {
        std::cout << "nothing is here yet: select baton.create_outbox('orders');\n";
    }
    return done;
}

int doctor(const Asked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("doctor");
    const Json report = Json::parse(answer);
    bool errors = false;
    for (const auto& finding : report["findings"]) errors = errors || finding["severity"] == "error";
    if (asked.json) {
        std::cout << answer << "\n";
        return errors ? failed : done;
    }
    const auto screen = Screen::of_stdout();
    print_server(screen, report["server"], asked.target);
    const Json& runs_jobs = report["server"]["jobs_run_by"];
    std::cout << toned(screen, Tone::faint,
                       "jobs are run by " + (runs_jobs.is_null() ? "nobody" : show(runs_jobs)))
              << "\n\n";
    std::vector<std::string> well;
    for (const auto& check : report["checks"])
        if (check["findings"].empty()) well.push_back(show(check["check"]));
    print_in_columns(std::cout, screen, Tone::good, "ok", well);
    if (!report["findings"].empty()) std::cout << "\n";
    print_findings(std::cout, screen, report["findings"]);
    print_where(screen, report["findings"], asked.target);
    return errors ? failed : done;
}

}  // namespace

void add_status(Program& program) {
    auto asked = std::make_shared<Asked>();
    add_asked(program.add("status", "everything on one screen, and what needs somebody",
                          [asked] { return status(*asked); }),
              *asked);
}

void add_doctor(Program& program) {
    auto asked = std::make_shared<Asked>();
    add_asked(program.add("doctor", "look for everything that may be wrong; each finding has its fix",
                          [asked] { return doctor(*asked); }),
              *asked);
}

}  // namespace baton::cli
