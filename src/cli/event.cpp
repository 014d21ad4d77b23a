// baton event: one event's whole way.

#include <iostream>
#include <memory>

#include "cli/operate.hpp"

namespace baton::cli {

namespace {

struct EventAsked : Asked {
    std::string event, outbox;
};

int event(const EventAsked& asked) {
    Operator with(asked.target);
    Json arguments{{"event", asked.event}};
    if (!asked.outbox.empty()) arguments["outbox"] = asked.outbox;
    const std::string answer = with.ask("show_event", arguments);
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const auto screen = Screen::of_stdout();
    Json way = Json::parse(answer);
    Json what = way["event"];
    what["outbox"] = way["outbox"];
    what["row"] = way["row"];
    what["committed_at"] = way["committed_at"];
    print_record(std::cout, screen, what,
                 {{"outbox", "outbox"},
                  {"offset", "offset"},
                  {"row", "row"},
                  {"event_id", "event"},
                  {"event_type", "type"},
                  {"key", "key"},
                  {"topic", "topic"},
                  {"tenant_id", "tenant"},
                  {"trace_id", "trace"},
                  {"occurred_at", "occurred", Form::time},
                  {"committed_at", "committed", Form::time}});
    if (way["committed_at"].is_null())
        std::cout
            << toned(screen, Tone::faint,
                     "when it was committed is not known: the server keeps that with track_commit_timestamp")
            << "\n";
    std::cout << toned(screen, Tone::faint, "payload") << "  "
              << harmless(with.db().value("select $1::json -> 'event' -> 'payload'", {answer})) << "\n";
    for (auto& group : way["groups"])
        group["since"] = group["leased_at"].is_null() ? group["parked_at"] : group["leased_at"];
    const auto section = [&](const char* name, const std::vector<Column>& columns, const char* none) {
        std::cout << "\n";
        if (way[name].empty())
            std::cout << none << "\n";
        else
            print_table(std::cout, screen, way[name], columns);
    };
    section("groups",
            {{"group_name", "GROUP"},
             {"state", "STATE"},
             {"since", "SINCE", Form::time},
             {"attempts", "TRIED", Form::count},
             {"consumer", "BY"},
             {"leased_until", "UNTIL", Form::time},
             {"due_at", "DUE", Form::time},
             {"settled_at", "SETTLED", Form::time},
             {"error", "ERROR"}},
            "no group reads this outbox");
    for (const auto& group : way["groups"])
        if (group["failures"].is_array() && !group["failures"].empty()) {
            std::cout << "\nfailed attempts of " << harmless(group["group_name"].get<std::string>()) << "\n";
            print_failures(std::cout, screen, group["failures"]);
        }
    section("inboxes",
            {{"inbox", "INBOX"},
             {"state", "STATE"},
             {"received_at", "RECEIVED", Form::time},
             {"processed_at", "HANDLED", Form::time},
             {"leased_by", "BY"},
             {"error", "ERROR"}},
            "no inbox of this database has received it");
    if (!way["actions"].empty())
        section("actions",
                {{"at", "WHEN", Form::time},
                 {"actor", "WHO"},
                 {"acting_for", "FOR"},
                 {"action", "WHAT"},
                 {"object", "TO WHAT"}},
                "");
    return done;
}

}  // namespace

void add_event(Program& program) {
    auto asked = std::make_shared<EventAsked>();
    auto& command = program.add("event", "one event's whole way: published, read, received, handled",
                                [asked] { return event(*asked); });
    add_asked(command, *asked);
    command.add_option("EVENT", asked->event, "its id; or its offset or row, with --outbox")->required();
    command.add_option("--outbox", asked->outbox, "where to look");
}

}  // namespace baton::cli
