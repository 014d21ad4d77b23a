#pragma once
// The columns of the lists that several commands show.

#include "cli/print.hpp"

namespace baton::cli {

extern const std::vector<Column> outbox_columns;
extern const std::vector<Column> group_columns;
extern const std::vector<Column> lag_columns;
extern const std::vector<Column> pipeline_columns;
extern const std::vector<Column> inbox_columns;
extern const std::vector<Column> stream_columns;

}  // namespace baton::cli
