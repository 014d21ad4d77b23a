// Commands that list what there is, or show one of it: outboxes, groups, inboxes, streams, leases, jobs,
// settings, actions, lag.

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/listings.hpp"
#include "cli/operate.hpp"

namespace baton::cli {

namespace {

// A part of one thing, behind a flag: the partitions of an outbox.
struct Part {
    std::string flag;
    std::string about;
    std::string operation;
    std::vector<Column> columns;
};

// What narrows a part: --state of messages.
struct Choice {
    std::string option;
    std::string about;
    std::string parameter;
};

struct Listing {
    std::string command;
    std::string about;
    std::string list;      // operation
    std::string show;      // operation; empty: there is only the list
    std::string argument;  // of the second operation
    std::vector<Column> columns;
    std::vector<Column> record;
    std::vector<Part> parts;
    std::vector<Choice> choices = {};
};

const std::vector<Column> partition_columns{{"partition", "PARTITION"},
                                            {"state", "STATE"},
                                            {"first_offset", "FROM", Form::count},
                                            {"end_offset", "TO", Form::count},
                                            {"bytes", "SIZE", Form::bytes},
                                            {"since", "SINCE", Form::time},
                                            {"waits_for", "WAITS FOR"}};
const std::vector<Column> consumer_columns{{"consumer", "CONSUMER"},
                                           {"healthy", "HEALTHY"},
                                           {"last_offset", "LAST", Form::count},
                                           {"heartbeat_age_seconds", "SEEN", Form::seconds},
                                           {"leases", "LEASES", Form::count}};
const std::vector<Column> blocked_columns{{"key", "KEY"},
                                          {"state", "STATE"},
                                          {"offset", "OFFSET", Form::count},
                                          {"waiting", "WAITING", Form::count},
                                          {"attempts", "ATTEMPTS", Form::count},
                                          {"due_at", "DUE", Form::time},
                                          {"error", "ERROR"}};
const std::vector<Column> lease_columns{{"group", "GROUP"},
                                        {"consumer", "CONSUMER"},
                                        {"kind", "KIND"},
                                        {"first_offset", "FROM", Form::count},
                                        {"last_offset", "TO", Form::count},
                                        {"leased_until", "UNTIL", Form::time}};
const std::vector<Column> gap_columns{{"aggregate", "AGGREGATE"},
                                      {"expected", "MISSING", Form::count},
                                      {"found", "NEXT", Form::count},
                                      {"seconds", "FOR", Form::seconds}};
const std::vector<Column> aggregate_columns{{"aggregate", "AGGREGATE"},
                                            {"reason", "WAITS FOR"},
                                            {"event_id", "MESSAGE"},
                                            {"attempts", "ATTEMPTS", Form::count},
                                            {"waiting_since", "SINCE", Form::time},
                                            {"letter", "DEAD LETTER"},
                                            {"error", "ERROR"}};
const std::vector<Column> message_columns{{"event_id", "MESSAGE"},
                                          {"event_type", "TYPE"},
                                          {"aggregate_id", "AGGREGATE"},
                                          {"state", "STATE"},
                                          {"attempts", "ATTEMPTS", Form::count},
                                          {"received_at", "RECEIVED", Form::time},
                                          {"leased_by", "WORKER"},
                                          {"error", "ERROR"}};
const std::vector<Column> refresh_columns{
    {"begun_at", "WHEN", Form::time}, {"mode", "MODE"},       {"inserted", "CAME", Form::count},
    {"deleted", "WENT", Form::count}, {"milliseconds", "MS"}, {"error", "ERROR"}};

std::vector<Column> as_record(const std::string& operation) {
    std::vector<Column> columns;
    for (const auto& field : operations::find(operation).shape) {
        const Form form = field.kind == operations::Kind::time      ? Form::time
                          : field.name == "bytes"                   ? Form::bytes
                          : field.name.ends_with("seconds")         ? Form::seconds
                          : field.kind == operations::Kind::integer ? Form::count
                                                                    : Form::plain;
        columns.push_back(
            {field.name, field.name, form, field.name == "dead_letters" || field.name == "failed_in_a_row"});
    }
    return columns;
}

const std::vector<Listing>& listings() {
    static const std::vector<Listing> all{
        {"outboxes",
         "outboxes and what they hold, or one of them",
         "list_outboxes",
         "show_outbox",
         "outbox",
         outbox_columns,
         as_record("show_outbox"),
         {{"--partitions", "its partitions, and who keeps the old ones", "list_partitions",
           partition_columns}}},
        {"groups",
         "consumer groups and how far behind they are, or one of them",
         "list_groups",
         "show_group",
         "group",
         group_columns,
         as_record("show_group"),
         {{"--consumers", "who works for it", "list_consumers", consumer_columns},
          {"--leases", "who holds which of its events", "list_leases", lease_columns},
          {"--blocked", "keys that wait behind an event that failed", "list_blocked_keys", blocked_columns}}},
        {"inboxes",
         "inboxes and what waits in them, or one of them",
         "list_inboxes",
         "show_inbox",
         "inbox",
         inbox_columns,
         as_record("show_inbox"),
         {{"--gaps", "aggregates that wait for a message", "list_gaps", gap_columns},
          {"--blocked", "aggregates behind a message that failed or has not come", "list_blocked_aggregates",
           aggregate_columns},
          {"--messages", "its messages: those that wait, or with --state", "list_messages", message_columns}},
         {{"--state", "pending, dead or processed messages", "state"}}},
        {"streams",
         "stream tables and how fresh they are, or one of them",
         "list_stream_tables",
         "show_stream_table",
         "stream_table",
         stream_columns,
         as_record("show_stream_table"),
         {{"--refreshes", "its last refreshes", "list_refreshes", refresh_columns}}},
        {"jobs",
         "what baton does by itself",
         "list_jobs",
         "",
         "",
         {{"job", "JOB"},
          {"every_seconds", "EVERY", Form::seconds},
          {"last_run", "LAST RUN", Form::time},
          {"last_seconds", "TOOK", Form::seconds},
          {"next_due", "DUE", Form::time},
          {"failed_in_a_row", "FAILED", Form::count, true},
          {"error", "ERROR"}},
         {},
         {}},
        {"settings",
         "settings of this database",
         "list_settings",
         "",
         "",
         {{"setting", "SETTING"}, {"value", "VALUE"}, {"default", "DEFAULT"}, {"about", "ABOUT"}},
         {},
         {}},
        {"actions",
         "who changed what",
         "list_actions",
         "",
         "",
         {{"at", "WHEN", Form::time},
          {"actor", "WHO"},
          {"acting_for", "FOR"},
          {"action", "WHAT"},
          {"object", "TO WHAT"},
          {"details", "DETAILS"}},
         {},
         {}},
    };
    return all;
}

struct ListingAsked : Asked {
    std::string name;
    std::vector<char> parts;  // which flags were given
    std::vector<std::string> choices;
    long long limit = 100;
};

bool is_paged(const Part& part) {
    return operations::find(part.operation).answer == operations::Answer::page;
}

// What a part is asked with. Throws UsageError for a choice that it does not know.
Json arguments_of(const Listing& listing, const Part& part, const ListingAsked& asked) {
    Json arguments{{listing.argument, asked.name}};
    if (is_paged(part)) arguments["limit"] = asked.limit;
    const auto known = operations::find(part.operation).parameters;
    for (std::size_t i = 0; i < listing.choices.size(); ++i) {
        const auto& choice = listing.choices[i];
        if (asked.choices[i].empty()) continue;
        if (std::none_of(known.begin(), known.end(),
                         [&](const auto& parameter) { return parameter.name == choice.parameter; }))
            throw UsageError(choice.option + " says nothing about " + part.flag);
        arguments[choice.parameter] = asked.choices[i];
    }
    return arguments;
}

int show_part(Operator& with, const Listing& listing, const Part& part, const ListingAsked& asked) {
    if (asked.name.empty())
        throw UsageError(part.flag + " needs a name", "baton " + listing.command + " NAME " + part.flag);
    const std::string answer = with.ask(part.operation, arguments_of(listing, part, asked));
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json page = Json::parse(answer);
    print_table(std::cout, Screen::of_stdout(), page["items"], part.columns);
    if (page.contains("next") && !page["next"].is_null())
        std::cout << "there are more: --limit shows up to 1000\n";
    return done;
}

int run_listing(const Listing& listing, const ListingAsked& asked) {
    Operator with(asked.target);
    const auto screen = Screen::of_stdout();
    Json arguments = asked.name.empty() ? Json::object() : Json{{listing.argument, asked.name}};
    for (std::size_t i = 0; i < listing.parts.size(); ++i)
        if (asked.parts[i] != 0) return show_part(with, listing, listing.parts[i], asked);
    for (std::size_t i = 0; i < listing.choices.size(); ++i)
        if (!asked.choices[i].empty())
            throw UsageError(listing.choices[i].option + " chooses among --messages",
                             "baton " + listing.command + " NAME --messages " + listing.choices[i].option +
                                 " " + asked.choices[i]);
    const std::string answer = with.ask(asked.name.empty() ? listing.list : listing.show, arguments);
    if (asked.json)
        std::cout << answer << "\n";
    else if (asked.name.empty())
        print_table(std::cout, screen, Json::parse(answer)["items"], listing.columns);
    else
        print_record(std::cout, screen, Json::parse(answer), listing.record);
    return done;
}

int run_lag(const Asked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("list_groups");
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    print_table(std::cout, Screen::of_stdout(), Json::parse(answer)["items"], lag_columns);
    return done;
}

}  // namespace

void add_look(Program& program) {
    for (const auto& listing : listings()) {
        auto asked = std::make_shared<ListingAsked>();
        asked->parts.resize(listing.parts.size());
        auto& command = program.add(listing.command, listing.about,
                                    [asked, &listing] { return run_listing(listing, *asked); });
        add_asked(command, *asked);
        if (!listing.show.empty()) command.add_option("NAME", asked->name, "show this one");
        for (std::size_t i = 0; i < listing.parts.size(); ++i)
            command.add_flag_callback(
                listing.parts[i].flag, [asked, i] { asked->parts[i] = 1; }, listing.parts[i].about);
        asked->choices.resize(listing.choices.size());
        for (std::size_t i = 0; i < listing.choices.size(); ++i)
            command.add_option(listing.choices[i].option, asked->choices[i], listing.choices[i].about);
        if (std::any_of(listing.parts.begin(), listing.parts.end(), is_paged))
            command.add_option("--limit", asked->limit, "how many")
                ->check(CLI::Range(1, 1000))
                ->capture_default_str();
    }
    auto asked = std::make_shared<Asked>();
    add_asked(program.add("lag", "how far behind every group is", [asked] { return run_lag(*asked); }),
              *asked);
}

}  // namespace baton::cli
