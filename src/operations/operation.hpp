#pragma once
// One thing that an operator can ask for or do. An operation is data: its parameters, its statement and the
// shape of its answer. The command line, the HTTP API and the dashboard run the same operations.
//
// Reading runs in a read-only transaction. A change runs in one transaction that tells the audit trail who
// asked. No operation waits longer than its limit.

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "postgres/connection.hpp"

namespace baton::operations {

using Json = nlohmann::ordered_json;

enum class Right { view, operate };
// A time is written as PostgreSQL reads it, or as how long ago it is: -30s, -15m, -2h, -7d.
enum class Kind { text, integer, number, boolean, time, json, texts };
enum class Answer { one, list, page };

struct Parameter {
    std::string name;
    Kind kind = Kind::text;
    std::string about;
    bool required = false;
    Json fallback = nullptr;  // what the operation takes when the argument is missing
    std::vector<std::string> choices = {};
};

struct Field {
    std::string name;
    Kind kind = Kind::text;
    std::string about;
};
using Shape = std::vector<Field>;

// Of an answer whose `next` is all that is needed to go on.
Shape without_cursor(Shape shape);

// Arguments by name, checked against an operation's parameters. A value may be given as text, as command
// lines and URLs have them; JSON always is.
class Arguments {
  public:
    Arguments(const std::vector<Parameter>& parameters, const Json& given);

    // As a parameter of a statement; NULL when missing.
    postgres::Param param(const std::string& name) const;
    std::string text(const std::string& name) const { return values_.at(name).get<std::string>(); }
    bool has(const std::string& name) const { return values_.contains(name) && !values_[name].is_null(); }
    const Json& operator[](const std::string& name) const { return values_.at(name); }
    void replace(const std::string& name, Json value) { values_[name] = std::move(value); }

  private:
    Json values_ = Json::object();
};

struct Operation {
    std::string name;    // list_outboxes
    std::string method;  // GET, POST, PUT, DELETE
    std::string path;    // /outboxes/{outbox}
    Right right = Right::view;
    std::string about;
    std::vector<Parameter> parameters = {};
    Answer answer = Answer::one;
    Shape shape = {};
    // The statement; $1 is the first parameter. A page's rows have a column that tells where to go on, and
    // the statement has two parameters more: `after`, the last cursor seen, and `limit`.
    std::string sql = {};
    std::string cursor = "cursor";  // the name of that column
    long long page = 100;           // items on a page, when nobody says
    // For an operation that is more than a statement.
    std::function<std::string(postgres::Connection&, const Arguments&)> work = {};
    std::chrono::milliseconds limit{10'000};
};

// All parameters: those of a page have `after` and `limit` too.
std::vector<Parameter> parameters_of(const Operation& operation);

// Rows of a page in the order of a name that each has once, and that is the cursor.
Operation by_name(Operation operation, const std::string& column);

// How many seconds ago "-2h" is; nothing for a time of another form.
std::optional<double> seconds_ago(const std::string& time);

// What was asked for is not there.
class NotFound : public Error {
  public:
    using Error::Error;
};

// Run an operation and return its answer, JSON in the server's own words: numbers keep all their digits.
// `who` is told to the audit trail. Throws SqlError, NotFound, and UsageError for wrong arguments.
std::string run(const Operation& operation, postgres::Connection& db, const Json& arguments,
                const std::string& who);

// Rows of a statement as an array of JSON objects.
std::string rows_of(postgres::Connection& db, const std::string& sql, const postgres::Params& params = {});
// The first row as a JSON object; empty when there is none.
std::string row_of(postgres::Connection& db, const std::string& sql, const postgres::Params& params = {});

const char* name_of(Kind kind);

}  // namespace baton::operations
