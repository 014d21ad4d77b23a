#pragma once
// A window of an outbox group, and how the relay asks for one.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "postgres/result.hpp"

namespace baton::tables {

// A window of a group (sql/window.sql), as the relay needs it for reading and for writing its position.
struct Window {
    std::string literal;  // the whole row, to be handed back as it is
    std::string era;
    std::string seen;
    std::string sight;
    std::string late;
    std::int64_t number = 0;
    std::optional<std::int64_t> first_id;
    std::optional<std::int64_t> last_id;
    std::int64_t start_id = 1;
    std::int64_t late_id = 0;  // late_id of the position behind the window

    bool has_late() const { return late != "{}"; }
};

// The select list that spreads out a window `w.x`, and how many columns it has.
extern const char* const window_columns;
constexpr int window_width = 10;

// Read window_columns, from the column `first` on. Null when no window is there.
std::shared_ptr<const Window> read_window_row(const postgres::Result& row, int first);

// Make a statement whose first column is a window give window_columns instead. `flushed` and `unsure` follow.
std::string windows_of(const std::string& statement);

}  // namespace baton::tables
