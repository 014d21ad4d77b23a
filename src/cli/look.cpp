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

const std::vector<Listing>& listings() {
    static const std::vector<Listing> all{
        {"outboxes",
         "outboxes and what they hold, or one of them",
         "list_outboxes",
         "show_outbox",
         "outbox",
         outbox_columns,
         record_of("show_outbox"),
         {{"--partitions", "its partitions, and who keeps the old ones", "list_partitions",
           partition_columns}}},
        {"groups",
         "consumer groups and how far behind they are, or one of them",
         "list_groups",
         "show_group",
         "group",
         group_columns,
         record_of("show_group"),
         {{"--consumers", "who works for it", "list_consumers", consumer_columns},
          {"--leases", "who holds which of its events", "list_leases", lease_columns},
          {"--blocked", "keys that wait behind an event that failed", "list_blocked_keys", blocked_columns}}},
        {"inboxes",
         "inboxes and what waits in them, or one of them",
         "list_inboxes",
         "show_inbox",
         "inbox",
         inbox_columns,
         record_of("show_inbox"),
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
         record_of("show_stream_table"),
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
    PageAsked page;
};

bool is_paged(const std::string& operation) {
    return operations::find(operation).answer == operations::Answer::page;
}

// What a part is asked with. Throws UsageError for a choice that it does not know.
Json arguments_of(const Listing& listing, const Part& part, const ListingAsked& asked) {
    Json arguments{{listing.argument, asked.name}};
    if (is_paged(part.operation)) arguments = asked.page.add_to(std::move(arguments));
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
    print_page(Json::parse(answer), part.columns);
    return done;
}

int run_listing(const Listing& listing, const ListingAsked& asked) {
    Operator with(asked.target);
    Json arguments = asked.name.empty() ? Json::object() : Json{{listing.argument, asked.name}};
    for (std::size_t i = 0; i < listing.parts.size(); ++i)
        if (asked.parts[i] != 0) return show_part(with, listing, listing.parts[i], asked);
    for (std::size_t i = 0; i < listing.choices.size(); ++i)
        if (!asked.choices[i].empty())
            throw UsageError(listing.choices[i].option + " chooses among --messages",
                             "baton " + listing.command + " NAME --messages " + listing.choices[i].option +
                                 " " + asked.choices[i]);
    if (asked.name.empty() && is_paged(listing.list)) arguments = asked.page.add_to(std::move(arguments));
    const std::string answer = with.ask(asked.name.empty() ? listing.list : listing.show, arguments);
    if (asked.json)
        std::cout << answer << "\n";
    else if (asked.name.empty())
        print_page(Json::parse(answer), listing.columns);
    else
        print_record(std::cout, Screen::of_stdout(), Json::parse(answer), listing.record);
    return done;
}

int run_lag(const ListingAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("list_groups", asked.page.add_to(Json::object()));
    if (asked.json)
        std::cout << answer << "\n";
    else
        print_page(Json::parse(answer), lag_columns);
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
        if (is_paged(listing.list)) add_page(command, asked->page);
    }
    auto asked = std::make_shared<ListingAsked>();
    auto& lag = program.add("lag", "how far behind every group is", [asked] { return run_lag(*asked); });
    add_asked(lag, *asked);
    add_page(lag, asked->page);
}

}  // namespace baton::cli
