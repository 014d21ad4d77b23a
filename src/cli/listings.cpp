#include "cli/listings.hpp"

#include <algorithm>
#include <iostream>

#include "operations/catalog.hpp"

namespace baton::cli {

const std::vector<Column> outbox_columns{{"outbox", "OUTBOX"},
                                         {"events", "EVENTS", Form::count},
                                         {"bytes", "SIZE", Form::bytes},
                                         {"partitions", "PARTITIONS", Form::count},
                                         {"groups", "GROUPS", Form::count},
                                         {"dead_letters", "DEAD", Form::count, true},
                                         {"newest", "NEWEST", Form::time},
                                         {"kind", "KIND"}};
const std::vector<Column> group_columns{{"group", "GROUP"},
                                        {"outbox", "OUTBOX"},
                                        {"lag_events", "BEHIND", Form::count},
                                        {"lag_seconds", "FOR", Form::seconds},
                                        {"retrying", "RETRYING", Form::count},
                                        {"blocked", "BLOCKED", Form::count},
                                        {"dead_letters", "DEAD", Form::count, true},
                                        {"healthy_consumers", "CONSUMERS", Form::count},
                                        {"owner", "RELAY"}};
const std::vector<Column> lag_columns{{"group", "GROUP"},
                                      {"lag_events", "BEHIND", Form::count},
                                      {"lag_seconds", "FOR", Form::seconds},
                                      {"outbox", "OUTBOX"}};
const std::vector<Column> pipeline_columns{{"pipeline", "PIPELINE"},
                                           {"state", "STATE"},
                                           {"source", "FROM"},
                                           {"sink", "TO"},
                                           {"lag_events", "BEHIND", Form::count},
                                           {"lag_seconds", "FOR", Form::seconds},
                                           {"dead_letters", "DEAD", Form::count, true},
                                           {"owner", "RELAY"}};
const std::vector<Column> inbox_columns{{"inbox", "INBOX"},
                                        {"pending", "WAITING", Form::count},
                                        {"oldest_seconds", "FOR", Form::seconds},
                                        {"dead_letters", "DEAD", Form::count, true},
                                        {"ordered", "ORDERED"},
                                        {"health", "HEALTH"},
                                        {"layout", "LAYOUT"}};
const std::vector<Column> stream_columns{{"stream_table", "STREAM TABLE"},
                                         {"state", "STATE"},
                                         {"effective_mode", "MODE"},
                                         {"schedule", "SCHEDULE"},
                                         {"refreshed_at", "REFRESHED", Form::time},
                                         {"last_milliseconds", "TOOK MS"},
                                         {"failed_in_a_row", "FAILED", Form::count, true},
                                         {"error", "ERROR"}};

const std::vector<Column> letter_columns{{"letter", "LETTER"},
                                         {"place", "OF"},
                                         {"event_type", "TYPE"},
                                         {"key", "KEY"},
                                         {"attempts", "TRIED", Form::count},
                                         {"died_at", "DIED", Form::time},
                                         {"error", "ERROR"}};
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

std::vector<Column> record_of(const std::string& operation) {
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

bool is_red(const Json& item) {
    for (const char* count : {"dead_letters", "failed_in_a_row"})
        if (const auto at = item.find(count); at != item.end() && at->is_number() && *at > 0) return true;
    for (const char* words : {"trouble", "problem"})
        if (const auto at = item.find(words); at != item.end() && at->is_string()) return true;
    for (const auto& [state, good] : {std::pair{"storage", "ok"}, {"health", "healthy"}})
        if (const auto at = item.find(state); at != item.end() && at->is_string() && *at != good) return true;
    return false;
}

namespace {

// How much waits for it.
double behind(const Json& item) {
    for (const char* count : {"lag_events", "pending"})
        if (const auto at = item.find(count); at != item.end() && at->is_number()) return at->get<double>();
    return 0;
}

}  // namespace

Json worst_of(const Json& items, std::size_t most) {
    if (items.size() <= most) return items;
    std::vector<const Json*> sorted;
    for (const auto& item : items) sorted.push_back(&item);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Json* one, const Json* other) {
        const bool red = is_red(*one);
        return red != is_red(*other) ? red : behind(*one) > behind(*other);
    });
    Json worst = Json::array();
    for (std::size_t i = 0; i < most; ++i) worst.push_back(*sorted[i]);
    return worst;
}

namespace {

// A word as a shell takes it.
std::string shell_word(const std::string& text) {
    constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@%+=,/-";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string word = "'";
    for (const char letter : text) word += letter == '\'' ? "'\\''" : std::string(1, letter);
    return word + "'";
}

}  // namespace

Json PageAsked::add_to(Json arguments) const {
    if (limit > 0) arguments["limit"] = limit;
    if (!after.empty()) arguments["after"] = after;
    return arguments;
}

void add_page(CLI::App& command, PageAsked& asked) {
    command.add_option("--limit", asked.limit, "how many, at most 1000")->check(CLI::Range(1, 1000));
    command.add_option("--after", asked.after, "go on behind this one");
}

void print_page(const Json& page, const std::vector<Column>& columns) {
    print_table(std::cout, Screen::of_stdout(), page["items"], columns);
    if (page.contains("next") && !page["next"].is_null())
        std::cout << "there are more: --after " << harmless(shell_word(page["next"].get<std::string>()))
                  << " shows the next ones, --limit up to 1000 at once\n";
}

}  // namespace baton::cli
