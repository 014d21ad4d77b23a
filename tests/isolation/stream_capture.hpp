#pragma once
// A source whose changes are captured, and the question whether they all are: the rows of the beginning, with
// the weights of the changes, are the rows of now. Rows are compared by their text, bags and all.

#include "support/cluster.hpp"

namespace baton::test {

class CapturedSource {
  public:
    // Capture these columns of a table, from its rows of now on.
    CapturedSource(Connection& db, const std::string& table, const std::vector<std::string>& columns)
        : table_(table) {
        const std::string names = join(columns, ", ");
        buffer_ = db.value(
            "select baton_internal.capture_source($1::regclass, array(select attnum from pg_attribute where "
            "attrelid = $1::regclass and attname = any ($2::text[]) order by attnum))",
            {table, "{" + join(columns, ",") + "}"});
        const std::string captured = db.value(
            "select string_agg('c' || attnum, ', ' order by array_position($2::text[], attname::text)) from "
            "pg_attribute "
            "where attrelid = $1::regclass and attname = any ($2::text[])",
            {table, "{" + join(columns, ",") + "}"});
        db.exec("create table if not exists rows_before (source text, r text)");
        db.query("delete from rows_before where source = $1", {table});
        db.exec("delete from " + buffer_);
        db.exec("insert into rows_before select '" + table + "', row(" + names + ")::text from " + table);
        differences_ = "select count(*) from (select r from (select r, 1 from rows_before where source = '" +
                       table + "' union all select row(" + captured + ")::text, weight from " + buffer_ +
                       " union all select row(" + names + ")::text, -1 from " + table +
                       ") x (r, w) group by r having sum(w) <> 0) y";
    }

    // How many rows differ, in one snapshot. A TRUNCATE heeds no snapshot: it must not come between this one
    // and the look at the table.
    std::string differences(Connection& db) const {
        Transaction transaction(db);
        db.exec("lock table " + table_ + " in access share mode");
        auto count = db.value(differences_);
        transaction.commit();
        return count;
    }
    // The weights in the buffer, in order.
    std::string weights(Connection& db) const {
        return db.value("select coalesce(string_agg(weight::text, ' ' order by weight), 'none') from " +
                        buffer_);
    }
    const std::string& buffer() const { return buffer_; }

  private:
    static std::string join(const std::vector<std::string>& words, const std::string& between) {
        std::string all;
        for (const auto& word : words) all += (all.empty() ? "" : between) + word;
        return all;
    }

    std::string table_;
    std::string buffer_;
    std::string differences_;
};

}  // namespace baton::test
