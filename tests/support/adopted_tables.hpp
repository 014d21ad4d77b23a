#pragma once
// The table layouts that baton has presets for, as their authors made them.

#include <ostream>
#include <string>
#include <vector>

namespace baton::test {

struct AdoptedTable {
    std::string preset;
    std::string name;
    std::string ddl;
    std::string insert;  // $1: how many rows
    std::string any_id;
    bool keeps_locks = false;

    friend void PrintTo(const AdoptedTable& table, std::ostream* out) { *out << table.preset; }
};

// One table for each preset.
const std::vector<AdoptedTable>& adopted_tables();
const AdoptedTable& adopted_table(const std::string& preset);

}  // namespace baton::test
