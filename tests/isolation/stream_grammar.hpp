#pragma once
// Random tables and random queries over them, for the tester of stream tables. The same seed gives the same
// tables and the same queries.
//
// A query's result is decided by the bag of rows that it reads. So whatever orders rows orders them totally
// (by every column in reach), nothing is computed with floats, and values that are equal and look different
// (numerics of several scales, here called loose) are never merged: no DISTINCT, GROUP BY or UNION over them.
// No query can fail by its data: no division by zero, no subquery of several rows as a value.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace baton::test {

class Dice {
  public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    // 0 .. sides - 1
    int below(int sides) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(sides)); }
    int between(int low, int high) { return low + below(high - low + 1); }
    bool percent(int chance) { return below(100) < chance; }
    template <class T>
    const T& pick(const std::vector<T>& choices) {
        return choices[static_cast<std::size_t>(below(static_cast<int>(choices.size())))];
    }
    std::string pick(std::initializer_list<const char*> choices) {
        return *(choices.begin() + below(static_cast<int>(choices.size())));
    }

  private:
    std::mt19937_64 engine_;
};

// A seed for one part of a run, which does not depend on the other parts.
std::uint64_t seed_of_part(std::uint64_t seed, std::uint64_t part);

enum class Kind { integer, big, money, loose, text, date, boolean, array };

std::string type_of(Kind kind);
// A literal of that kind with its type, null now and then.
std::string random_value(Dice& dice, Kind kind, int null_percent = 10);

struct RandomColumn {
    std::string name;
    Kind kind;
};

struct RandomTable {
    std::string name;                   // with its schema
    std::vector<RandomColumn> columns;  // every table has k and v, of integers
    bool has_key = false;               // id, the first column
};

struct RandomSchema {
    std::vector<RandomTable> tables;
    std::vector<RandomTable> views;
    std::string text;  // the statements that make all of them
};

RandomSchema random_schema(Dice& dice);

// The same columns everywhere: c1, c2, ...
struct RandomQuery {
    std::string text;
    std::vector<Kind> kinds;
};

RandomQuery random_query(Dice& dice, const RandomSchema& schema);

}  // namespace baton::test
