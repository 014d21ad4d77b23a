// baton pipelines: those of the catalog, and files of them.

#include <filesystem>
#include <iostream>
#include <memory>

#include "assembly/catalog.hpp"
#include "assembly/example.hpp"
#include "assembly/lint.hpp"
#include "base/file.hpp"
#include "baton/error.hpp"
#include "cli/check.hpp"
#include "cli/listings.hpp"
#include "cli/operate.hpp"
#include "relay/config.hpp"

namespace baton::cli {

namespace {

namespace fs = std::filesystem;

struct PipelineAsked : Asked {
    std::string name;
    fs::path file;
    std::string sink, outbox;
    bool force = false;
    PageAsked page;
};

// What hinders pipelines, in their relays' words.
void print_troubles(const Json& items) {
    const auto screen = Screen::of_stdout();
    for (const auto& item : items)
        if (item["trouble"].is_string())
            std::cout << "\n"
                      << toned(screen, Tone::bad, show(item["pipeline"]) + " is in trouble") << " since "
                      << show(item["trouble_since"], Form::time) << ": " << show(item["trouble"]) << "\n";
}

int list(const PipelineAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("list_pipelines", asked.page.add_to(Json::object()));
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json page = Json::parse(answer);
    if (page["items"].empty())
        std::cout << "the catalog has no pipelines, and no relay runs one of its own file\n";
    else
        print_page(page, pipeline_columns);
    print_troubles(page["items"]);
    return done;
}

int show_pipeline(const PipelineAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("show_pipeline", {{"pipeline", asked.name}});
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json pipeline = Json::parse(answer);
    print_record(std::cout, Screen::of_stdout(), pipeline,
                 {{"pipeline", "pipeline"},
                  {"kept_in", "kept in"},
                  {"enabled", "enabled"},
                  {"state", "state"},
                  {"trouble", "trouble"},
                  {"trouble_since", "since", Form::time},
                  {"source", "from"},
                  {"group", "group"},
                  {"sink", "to"},
                  {"owner", "relay"},
                  {"owned_until", "until", Form::time},
                  {"delivered", "delivered", Form::count},
                  {"failed", "failed", Form::count},
                  {"lag_events", "behind", Form::count},
                  {"lag_seconds", "for", Form::seconds},
                  {"dead_letters", "dead", Form::count, true},
                  {"updated_at", "changed", Form::time},
                  {"updated_by", "by"}});
    if (!pipeline["settings"].is_null()) std::cout << pipeline["settings"].dump(2) << "\n";
    return done;
}

int change(const PipelineAsked& asked, const std::string& operation, const std::string& participle) {
    Operator with(asked.target);
    const std::string answer = with.ask(operation, {{"pipeline", asked.name}});
    std::cout << (asked.json ? answer : "pipeline " + asked.name + " is " + participle) << "\n";
    return done;
}

int lint(const PipelineAsked& asked) {
    DaemonOptions options;
    options.file = asked.file;
    return check_relay({}, options, {.settings_only = true, .json = asked.json});
}

int create(const PipelineAsked& asked) {
    const std::string name = asked.name.empty() ? asked.outbox + "-to-" + asked.sink : asked.name;
    const std::string text = assembly::example_file(asked.sink, asked.outbox, name);
    const auto tell = [&] {
        print_json(std::cout, {{"pipeline", name},
                               {"file", asked.file.empty() ? Json(nullptr) : Json(asked.file.string())},
                               {"text", text}});
    };
    if (asked.file.empty()) {
        if (asked.json) {
            tell();
            return done;
        }
        std::cout << text;
        return done;
    }
    if (fs::exists(asked.file) && !asked.force)
        throw UsageError("the file " + asked.file.string() + " exists already",
                         "name another one, or overwrite it with --force");
    write_text(asked.file, text);
    if (asked.json) {
        tell();
        return done;
    }
    std::cout << "wrote " << asked.file.string() << "; next: baton pipelines lint " << asked.file.string()
              << "\n";
    return done;
}

// The pipeline as the catalog has it; null when it has none of that name.
Json in_catalog(Operator& with, const std::string& name) {
    try {
        return with.look("show_pipeline", {{"pipeline", name}});
    } catch (const operations::NotFound&) {
        return nullptr;
    }
}

// Make a pipeline of the catalog as a file has it, and say what was done.
std::string apply_one(Operator& with, const relay::Settings& settings) {
    const std::string name = settings.text("name"), wanted = assembly::as_json(settings);
    const Json before = in_catalog(with, name);
    const bool switched = !before.is_null() && settings.has("enabled") &&
                          before["enabled"] != settings.boolean("enabled", true);
    if (!before.is_null() && !switched &&
        nlohmann::json::parse(wanted) == nlohmann::json::parse(before["settings"].dump()))
        return "unchanged";
    Json arguments{{"pipeline", name}, {"settings", wanted}};
    if (settings.has("enabled")) arguments["enabled"] = settings.boolean("enabled", true);
    with.ask("set_pipeline", arguments);
    return before.is_null() ? "made" : "changed";
}

// Nothing is changed when something is wrong with one of them. The secrets are those of the relays.
int apply(const PipelineAsked& asked) {
    const auto pipelines = relay::read_config(asked.file).pipelines;
    if (pipelines.empty())
        throw UsageError("there is no pipeline in " + asked.file.string(), "write one below [[pipeline]]");
    bool good = true;
    for (const auto& settings : pipelines)
        for (const auto& problem : assembly::problems_of(settings, {}, assembly::Secrets::unknown)) {
            print_error(problem.what(), problem.hint());
            good = false;
        }
    if (!good)
        throw Error("nothing was changed", "mend the file: baton pipelines lint " + asked.file.string());
    Operator with(asked.target);
    Json items = Json::array();
    for (const auto& settings : pipelines) {
        items.push_back({{"pipeline", settings.text("name")}, {"done", apply_one(with, settings)}});
        if (!asked.json)
            std::cout << show(items.back()["pipeline"]) << ": " << show(items.back()["done"]) << std::endl;
    }
    if (asked.json) print_json(std::cout, {{"items", items}});
    return done;
}

}  // namespace

void add_pipelines(Program& program) {
    auto& family = program.add_family("pipelines",
                                      "pipelines: list, show, enable, disable, delete, lint, apply, create");
    const auto add = [&](const char* name, const char* about, auto action) {
        auto asked = std::make_shared<PipelineAsked>();
        auto& command = program.add(family, name, about, [asked, action] { return action(*asked); });
        return std::pair<CLI::App&, std::shared_ptr<PipelineAsked>>(command, asked);
    };
    {
        auto [command, asked] =
            add("list", "pipelines of the catalog, and those of files that relays run", list);
        add_asked(command, *asked);
        add_page(command, asked->page);
    }
    const auto add_named = [&](const char* name, const char* about, auto action) {
        auto [command, asked] = add(name, about, action);
        add_asked(command, *asked);
        command.add_option("NAME", asked->name, "which pipeline")->required();
    };
    add_named("show", "one pipeline with its settings", show_pipeline);
    add_named("enable", "let relays run a pipeline",
              [](const PipelineAsked& asked) { return change(asked, "enable_pipeline", "enabled"); });
    add_named("disable", "make relays drain and stop a pipeline",
              [](const PipelineAsked& asked) { return change(asked, "disable_pipeline", "disabled"); });
    add_named("delete", "delete a pipeline from the catalog; its group keeps its place",
              [](const PipelineAsked& asked) { return change(asked, "delete_pipeline", "deleted"); });
    {
        auto [command, asked] = add("lint", "check a file of pipelines; connects nowhere", lint);
        command.add_option("FILE", asked->file, "TOML file, or a folder of them")->required();
        add_json(command, *asked);
    }
    {
        auto [command, asked] =
            add("apply", "make the catalog's pipelines as a file has them; others stay as they are", apply);
        add_asked(command, *asked);
        command.add_option("FILE", asked->file, "TOML file, or a folder of them")->required();
    }
    {
        auto [command, asked] = add("create", "write a file with a pipeline to begin with", create);
        command.add_option("--sink", asked->sink, "type of the sink: kafka, nats, http and so on")
            ->required();
        command.add_option("--outbox", asked->outbox, "what to read")->default_val("orders");
        command.add_option("--name", asked->name, "name of the pipeline (default: OUTBOX-to-SINK)");
        command.add_option("FILE", asked->file, "where to write it (default: stdout)");
        command.add_flag("--force", asked->force, "overwrite the file");
        add_json(command, *asked);
    }
}

}  // namespace baton::cli
