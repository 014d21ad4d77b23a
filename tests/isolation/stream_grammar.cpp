#include "isolation/stream_grammar.hpp"

#include "isolation/stream_blocks.hpp"

namespace baton::test {

std::uint64_t seed_of_part(std::uint64_t seed, std::uint64_t part) {
    std::seed_seq mixed{seed, seed >> 32, part, part >> 32};
    std::uint32_t words[2];
    mixed.generate(words, words + 2);
    return (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
}

std::string type_of(Kind kind) {
    switch (kind) {
        case Kind::integer:
            return "int";
        case Kind::big:
            return "bigint";
        case Kind::money:
            return "numeric(20,2)";
        case Kind::loose:
            return "numeric";
        case Kind::text:
            return "text";
        case Kind::date:
            return "date";
        case Kind::boolean:
            return "boolean";
        case Kind::array:
            return "int[]";
    }
    return "";
}

std::string random_value(Dice& dice, Kind kind, int null_percent) {
    if (dice.percent(null_percent)) return "null::" + type_of(kind);
    switch (kind) {
        case Kind::integer:
            return std::to_string(dice.below(5));
        case Kind::big:
            return dice.pick({"0", "1", "2", "3", "5000000000"}) + "::bigint";
        case Kind::money:
            return dice.pick({"0.00", "1.00", "1.50", "2.00", "-3.25", "'NaN'"}) + "::numeric(20,2)";
        case Kind::loose:
            return dice.pick({"'0'", "'1'", "'1.0'", "'1.00'", "'2.5'", "'2.50'", "'NaN'"}) + "::numeric";
        case Kind::text:
            return dice.pick({"'a'", "'A'", "'b'", "'B'", "'ab'", "''"}) + "::text";
        case Kind::date:
            return "date '2024-01-0" + std::to_string(dice.between(1, 5)) + "'";
        case Kind::boolean:
            return dice.pick({"true", "false"});
        case Kind::array:
            return dice.pick({"'{}'", "'{1}'", "'{1,2}'", "'{2,NULL}'", "'{3,3}'", "'{{1,2},{3,4}}'"}) +
                   "::int[]";
    }
    return "null";
}

namespace {

const std::vector<Kind> all_kinds{Kind::integer, Kind::big,  Kind::money,   Kind::loose,
                                  Kind::text,    Kind::date, Kind::boolean, Kind::array};

RandomTable random_table(Dice& dice, int number) {
    RandomTable table{"s.t" + std::to_string(number), {}, dice.percent(50)};
    if (table.has_key) table.columns.push_back({"id", Kind::integer});
    table.columns.push_back({"k", Kind::integer});
    table.columns.push_back({"v", Kind::integer});
    const int more = dice.between(2, 4);
    for (int i = 1; i <= more; ++i) table.columns.push_back({"x" + std::to_string(i), dice.pick(all_kinds)});
    return table;
}

std::string creation(const RandomTable& table) {
    std::string columns;
    for (const auto& column : table.columns)
        columns += (columns.empty() ? "" : ", ") + column.name + " " + type_of(column.kind) +
                   (column.name == "id" ? " primary key" : "");
    return "create table " + table.name + " (" + columns + ");\n";
}

}  // namespace

RandomSchema random_schema(Dice& dice) {
    RandomSchema schema;
    schema.text = "create schema s;\n";
    for (int i = 1; i <= 4; ++i) {
        schema.tables.push_back(random_table(dice, i));
        schema.text += creation(schema.tables.back());
    }
    for (int i = 1; i <= 2; ++i) {
        const RandomQuery query = Blocks(dice, schema, 2).query(1);
        RandomTable view{"s.w" + std::to_string(i), {}, false};
        for (std::size_t c = 0; c < query.kinds.size(); ++c)
            view.columns.push_back({"c" + std::to_string(c + 1), query.kinds[c]});
        schema.text += "create view " + view.name + " as " + query.text + ";\n";
        schema.views.push_back(view);
    }
    return schema;
}

RandomQuery random_query(Dice& dice, const RandomSchema& schema) {
    return Blocks(dice, schema, dice.between(2, 5)).query(2);
}

}  // namespace baton::test
