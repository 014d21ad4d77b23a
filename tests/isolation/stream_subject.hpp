#pragma once
// Stream tables of every kind over two sources, for tests that break something: differential and full ones,
// one above another, each with an outbox whose large deltas are claim-checks.

#include "isolation/stream_keeper.hpp"
#include "support/cluster.hpp"

namespace baton::test {

inline const std::vector<std::string> subject_names{"totals", "joined", "counted", "above"};

inline void make_sources(Connection& db) {
    db.exec(stream_keeper);
    db.exec(R"(
        create table customers (id int primary key, name text);
        create sequence order_ids start 1001;
        create table orders (id int primary key, customer int, amount int);
        insert into customers select n, 'name ' || n % 7 from generate_series(0, 19) n;
        insert into orders select n, n % 20, n % 10 from generate_series(1, 600) n;
        select baton.set_setting('outbox_inline_threshold_rows', '100'))");
}

inline void make_stream_tables(Connection& db) {
    const auto make = [&db](const std::string& name, const std::string& query) {
        db.query("select tester.make($1, $2, '{}', true)", {name, query});
    };
    make("totals",
         "select customer, count(*) as orders, sum(amount) as total from public.orders group by customer");
    make("joined",
         "select o.id, c.name, o.amount from public.orders o join public.customers c on c.id = o.customer");
    make("counted",
         "select c.name, count(o.id) as orders from public.customers c left join public.orders o on "
         "o.customer = c.id group by c.name");
    make("above", "select total, count(*) as customers from tester.totals group by total");
    db.exec("select baton.alter_stream_table('tester.counted', refresh_mode => 'FULL')");
}

// Some changes of every kind, other ones for another number.
inline void change_sources(Connection& db, int number) {
    const std::string n = std::to_string(number);
    db.exec("insert into orders select nextval('order_ids'), g * " + n +
            " % 23, g from generate_series(1, 5) g; update orders set amount = amount + 1, customer = "
            "(customer + " +
            n + ") % 20 where id % 11 = " + n + " % 11; delete from orders where id % 97 = " + n +
            " % 97; update customers set name = name || 'x' where id = " + n + " % 20");
}

// Refresh what is below before what is above; says how.
inline std::string refresh_all(Connection& db) {
    std::string modes;
    for (const auto& name : subject_names)
        modes += (modes.empty() ? "" : " ") +
                 db.value("select mode from baton.refresh_stream_table($1)", {"tester." + name});
    return modes;
}

// How each stream table differs from its query, and its outbox from what the table went through.
inline std::string subject_differences(Connection& db) {
    std::string all;
    for (const auto& name : subject_names) {
        const auto found = db.value("select tester.differences($1)", {name});
        if (!found.empty()) all += name + ": " + found + "\n";
    }
    return all;
}

// Everything that there is by name: relations, triggers, and what the catalog knows.
inline std::string inventory(Connection& db) {
    return db.value(R"(
        select string_agg(x, E'\n' order by x) from (
            select format('%s %s', c.relkind, c.oid::regclass) from pg_class c
             where c.relnamespace in ('baton_internal'::regnamespace, 'tester'::regnamespace, 'public'::regnamespace)
            union all select format('trigger %s on %s', tgname, tgrelid::regclass) from pg_trigger where not tgisinternal
            union all select format('stream table %s: %s', relation, query) from baton.stream_tables
            union all select format('source %s of %s', source, stream_id) from baton_internal.stream_sources
            union all select format('outbox %s of %s', outbox_id, stream_id) from baton_internal.stream_outboxes
            union all select format('outbox %s', relation) from baton.outboxes) i (x))");
}

}  // namespace baton::test
