#include "tables/outbox_window.hpp"

namespace baton::tables {

const char* const window_columns =
    "(w.x)::text, (w.x).era, (w.x).seen, (w.x).sight, (w.x).late, (w.x).window_number, (w.x).first_id, "
    "(w.x).last_id, (w.x).start_id, (w.x).late_id";

std::shared_ptr<const Window> read_window_row(const postgres::Result& row, int first) {
    if (row.is_null(0, first + 1)) return nullptr;
    auto window = std::make_shared<Window>();
    window->literal = row.text(0, first);
    window->era = row.text(0, first + 1);
    window->seen = row.text(0, first + 2);
    window->sight = row.text(0, first + 3);
    window->late = row.text(0, first + 4);
    window->number = row.number(0, first + 5);
    if (!row.is_null(0, first + 6)) window->first_id = row.number(0, first + 6);
    if (!row.is_null(0, first + 7)) window->last_id = row.number(0, first + 7);
    window->start_id = row.number(0, first + 8);
    window->late_id = row.number(0, first + 9);
    return window;
}

std::string windows_of(const std::string& statement) {
    return "select " + std::string(window_columns) + ", o.flushed, o.unsure from (" + statement +
           ") o cross join lateral (select o.opened as x) w";
}

}  // namespace baton::tables
