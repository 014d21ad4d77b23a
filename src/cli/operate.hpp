#pragma once
// Commands that run operations: one connection, one answer, as a table or as JSON.

#include "cli/commands.hpp"
#include "cli/print.hpp"
#include "cli/target.hpp"
#include "operations/catalog.hpp"

namespace baton::cli {

// What such a command was told.
struct Asked {
    Target target;
    bool json = false;
    Json arguments = Json::object();  // of the operation
};

void add_json(CLI::App& command, Asked& asked);
// Add --db, --data-dir and --json.
void add_asked(CLI::App& command, Asked& asked);

// A connection to a database that has baton. Throws Error.
class Operator {
  public:
    explicit Operator(const Target& target);

    // The answer as the server wrote it.
    std::string ask(const std::string& operation, const Json& arguments = Json::object());
    // The same, to look at.
    Json look(const std::string& operation, const Json& arguments = Json::object());

    // All items of a list, page by page.
    Json look_at_all(const std::string& operation);

    postgres::Connection& db() { return db_; }

  private:
    postgres::Connection db_;
    std::string who_;
};

// All items of a list, page by page, each page asked for with these arguments.
template <class Ask>
Json all_items(const Ask& ask) {
    Json items = Json::array(), arguments = Json::object();
    do {
        Json page = ask(arguments);
        for (auto& item : page["items"]) items.push_back(std::move(item));
        arguments["after"] = page.contains("next") ? page["next"] : Json(nullptr);
    } while (!arguments["after"].is_null());
    return items;
}

// A text given on the command line: itself, @FILE, or - for stdin. Throws UsageError when there is no such
// file.
std::string read_given(const std::string& given);

// Ask a person on the terminal; false without a terminal.
bool confirm(const std::string& question);

}  // namespace baton::cli
