#pragma once
// The columns of the lists that several commands show, and which page of a list is wanted.

#include <CLI/CLI.hpp>

#include "cli/print.hpp"

namespace baton::cli {

extern const std::vector<Column> outbox_columns;
extern const std::vector<Column> group_columns;
extern const std::vector<Column> lag_columns;
extern const std::vector<Column> pipeline_columns;
extern const std::vector<Column> inbox_columns;
extern const std::vector<Column> stream_columns;

extern const std::vector<Column> letter_columns;

// ... and of the parts of one thing.
extern const std::vector<Column> partition_columns;
extern const std::vector<Column> consumer_columns;
extern const std::vector<Column> blocked_columns;
extern const std::vector<Column> lease_columns;
extern const std::vector<Column> gap_columns;
extern const std::vector<Column> aggregate_columns;
extern const std::vector<Column> message_columns;
extern const std::vector<Column> refresh_columns;

// A column for every field of the answer of an operation that shows one thing.
std::vector<Column> record_of(const std::string& operation);

// Whether somebody has to look at an item of a list.
bool is_red(const Json& item);
// The items for a place that holds `most`: where there are more, the red ones come first, then those that are
// furthest behind.
Json worst_of(const Json& items, std::size_t most);

struct PageAsked {
    long long limit = 0;  // 0: as the operation has it
    std::string after;

    Json add_to(Json arguments) const;
};

// Add --limit and --after.
void add_page(CLI::App& command, PageAsked& asked);
// Print a list, and how its next page is asked for.
void print_page(const Json& page, const std::vector<Column>& columns);

}  // namespace baton::cli
