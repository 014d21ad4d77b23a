// A query that is computed for each row a of A: a LATERAL item, or a subquery's value. Let L(a) be what it
// gives over the rows of its leaves, now or before.
//
// A row that is in A n times now and was there b times before gives n L_now(a) now and gave b L_before(a)
// before. L is the same as before for rows that have no partner in the change of any leaf: then the change is
// (n - b) L_now(a), and only rows of change(A) have some. The others are looked up: the rows of A with a
// partner in a leaf's change.  L is never computed for a row over leaves that were not there together, which
// could raise an error that the query itself does not.
//
// L depends on the columns of a which it names, so it is computed once for all rows that have the same ones:
// these get the same number. Where a leaf is joined by an equality, the leaf's rows for all numbers come from
// one join, and wait in an array. That takes time by the number of rows, where a look at the leaf for each
// row would take time by the product.

#include "stream/compiler/per_row.hpp"

namespace baton::stream {

namespace {

class PerRowRule {
  public:
    PerRowRule(Compiler& compiler, const PerRow& given)
        : compiler_(compiler),
          given_(given),
          left_(*given.left),
          op_(compiler.make(given.label, inputs_of(given))),
          columns_(column_list(left_.columns, "a")),
          added_(column_list(given.columns, "r")) {}

    const Operator& build() {
        op_.columns = left_.columns;
        op_.columns.insert(op_.columns.end(), given_.columns.begin(), given_.columns.end());
        op_.origins = left_.origins;
        op_.origins.insert(op_.origins.end(), given_.origins.begin(), given_.origins.end());
        const std::string now = given_.inside.filled(leaf_now);
        compiler_.script().add_view(op_.now, computed(columns_, left_.now + " a", now));
        if (left_.is_constant() && given_.inside.is_constant()) {
            op_.change.clear();
        } else if (given_.inside.is_constant()) {
            compiler_.script().add_table(
                op_.change, computed(columns_ + ", a.baton_weight", left_.change + " a", now, true));
        } else {
            note_wanted();
            compute_both();
            compiler_.script().add_table(op_.change, given_.is_value() ? values_changed() : rows_changed());
        }
        return op_;
    }

  private:
    static std::vector<const Operator*> inputs_of(const PerRow& given) {
        std::vector<const Operator*> inputs{given.left};
        for (const auto& leaf : given.inside.leaves) inputs.push_back(leaf.op);
        return inputs;
    }

    // Rows with what is added to them. The weight comes last, where there is one.
    std::string computed(const std::string& head, const std::string& input, const std::string& text,
                         bool has_weight = false, const std::string& condition = "") const {
        std::string columns = head;
        std::string weight;
        if (has_weight) {
            const auto at = head.rfind(", ");
            columns = head.substr(0, at);
            weight = head.substr(at);
        }
        if (given_.is_value())
            return "select " + columns + ", " + text + " as " + given_.columns.front().name + weight +
                   " from " + input + condition;
        std::vector<std::string> names;
        for (std::size_t i = 1; i <= given_.width; ++i) names.push_back("f" + std::to_string(i));
        const bool is_left = given_.type == JOIN_LEFT;
        return "select " + columns + ", " + join(given_.outputs, ", ") + weight + " from " + input +
               (is_left ? " left join lateral " : " join lateral ") + text + " l(" + join(names, ", ") +
               ") on " + (given_.condition.empty() ? "true" : given_.condition) + condition;
    }

    std::string has_partner(const Leaf& leaf) const {
        return "exists (select from " + leaf.op->change + " b where " + all_of(leaf.conditions) + ")";
    }

    // The rows for which something has changed, each of them once: how often it is there now and was before,
    // as far as that counts, and the number of what L names of it.
    void note_wanted() {
        std::vector<std::string> parts;
        std::string not_before;  // a row with partners in several leaves is taken once
        for (const auto& leaf : given_.inside.leaves) {
            if (leaf.op->is_constant()) continue;
            const std::string where = " a where " + has_partner(leaf) + not_before;
            parts.push_back("select " + columns_ + ", 1 as now, 1 as before from " + left_.now + where);
            if (!left_.is_constant())
                parts.push_back("select " + columns_ + ", 0, -a.baton_weight from " + left_.change + where);
            not_before += " and not " + has_partner(leaf);
        }
        if (!left_.is_constant())
            parts.push_back("select " + columns_ + ", a.baton_weight, 0 from " + left_.change +
                            " a where true" + not_before);
        std::vector<std::string> values;
        std::vector<std::string> images;
        for (const auto& column : left_.columns) {
            values.push_back("baton_internal.one_of(u." + column.name + ") as " + column.name);
            images.push_back(image_text(column, "u." + column.name));
        }
        std::vector<std::string> named;
        for (const int index : given_.inside.used) {
            const Column& column = left_.columns[static_cast<std::size_t>(index)];
            named.push_back(image_text(column, "w." + column.name));
        }
        compiler_.script().add_table(
            name("wanted"),
            "select dense_rank() over (" + (named.empty() ? "" : "order by " + join(named, ", ")) +
                ") as baton_row, w.* from (select " + join(values, ", ") +
                ", sum(u.now)::bigint as weight_now, sum(u.before)::bigint as weight_before from (" +
                join(parts, "\n union all ") + ") u group by " + join(images, ", ") +
                " having sum(u.now) <> 0 or sum(u.before) <> 0) w");
        std::vector<std::string> domain{"a.baton_row", "bool_or(a.weight_now <> 0) as needs_now",
                                        "bool_or(a.weight_before <> 0) as needs_before"};
        for (const int index : given_.inside.used) {
            const std::string& column = left_.columns[static_cast<std::size_t>(index)].name;
            domain.push_back("baton_internal.one_of(a." + column + ") as " + column);
        }
        compiler_.script().add_table(name("domain"), "select " + join(domain, ", ") + " from " +
                                                         name("wanted") + " a group by a.baton_row");
    }

    // L of all numbers, now and before.
    void compute_both() {
        for (const bool is_now : {true, false}) {
            std::string input = name("domain") + " a";
            const auto rows = [&](const Leaf& leaf) {
                if (!leaf.has_equality) return is_now ? leaf_now(leaf) : leaf_before(compiler_, leaf);
                const std::string partners = gathered(leaf, is_now);
                input += " left join " + partners + " on " + partners + ".baton_row = a.baton_row";
                std::vector<std::string> definitions;
                for (const auto& column : leaf.op->columns) definitions.push_back(definition_text(column));
                return "unnest(" + partners + ".partners) " + leaf.name + "(" + join(definitions, ", ") + ")";
            };
            const std::string text = given_.inside.filled(rows);
            compiler_.script().add_table(name(is_now ? "fresh" : "stale"),
                                         computed("a.baton_row", input, text, false,
                                                  is_now ? " where a.needs_now" : " where a.needs_before"));
        }
    }

    // The rows of a leaf for each number, in an array.
    std::string gathered(const Leaf& leaf, bool is_now) {
        const std::string met = Compiler::name("met", *leaf.op);
        const std::string on = " b on " + all_of(leaf.conditions);
        const std::string columns = column_list(leaf.op->columns, "b");
        if (is_now)
            compiler_.script().add_table(met, "select a.baton_row, a.needs_now, a.needs_before, " + columns +
                                                  " from " + name("domain") + " a join " + leaf.op->now + on);
        std::string rows = "select * from " + met + " b where b." + (is_now ? "needs_now" : "needs_before");
        if (!is_now && !leaf.op->is_constant()) {
            std::vector<Column> numbered = leaf.op->columns;
            numbered.insert(numbered.begin(), {"baton_row", INT8OID, -1, InvalidOid});
            rows = spread(numbered, "select b.baton_row, " + columns + ", 1::bigint as baton_weight from (" +
                                        rows + ") b union all select a.baton_row, " + columns +
                                        ", -b.baton_weight from " + name("domain") + " a join " +
                                        leaf.op->change + on + " where a.needs_before");
        }
        std::string view = Compiler::name(is_now ? "partners" : "past_partners", *leaf.op);
        compiler_.script().add_table(view, "select b.baton_row, array_agg(row(" + columns +
                                               ")) as partners from (" + rows + ") b group by b.baton_row");
        return view;
    }

    std::string rows_changed() const {
        const auto term = [&](const char* result, const char* weight, const char* sign) {
            return "select " + columns_ + ", " + added_ + ", " + sign + "a." + weight +
                   " as baton_weight from " + name("wanted") + " a join " + name(result) +
                   " r using (baton_row) where a." + weight + " <> 0";
        };
        return term("fresh", "weight_now", "") + "\n union all " + term("stale", "weight_before", "-");
    }

    // Where the value is as it was, only the number of rows may have changed.
    std::string values_changed() {
        const std::string value = given_.columns.front().name;
        compiler_.script().add_table(
            name("values"), "select a.*, n." + value + " as now, b." + value +
                                " as before, baton_internal.image(n." + value +
                                ") is not distinct from baton_internal.image(b." + value +
                                ") as is_same from " + name("wanted") + " a left join " + name("fresh") +
                                " n using (baton_row) left join " + name("stale") + " b using (baton_row)");
        const std::string weight = "a.weight_now - case when a.is_same then a.weight_before else 0 end";
        return "select " + columns_ + ", a.now as " + value + ", " + weight + " as baton_weight from " +
               name("values") + " a where " + weight + " <> 0\n union all select " + columns_ +
               ", a.before, -a.weight_before from " + name("values") +
               " a where not a.is_same and a.weight_before <> 0";
    }

    std::string name(const char* role) const { return Compiler::name(role, op_); }

    Compiler& compiler_;
    const PerRow& given_;
    const Operator& left_;
    Operator& op_;
    std::string columns_;
    std::string added_;
};

}  // namespace

const Operator& per_row(Compiler& compiler, const PerRow& given) {
    return PerRowRule(compiler, given).build();
}

}  // namespace baton::stream
