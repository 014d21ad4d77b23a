#include "isolation/stream_workload.hpp"

#include <thread>

namespace baton::test {

namespace {

constexpr int keys = 12;  // of tables with one

// What may befall a transaction among others; it is rolled back then.
bool is_mishap(const std::string& state) {
    return state == "23505" || state == "40P01" || state == "40001" || state == "55P03" || state == "21000";
}

const RandomColumn& some_column(Dice& dice, const RandomTable& table) {
    return dice.pick(table.columns);
}

std::string value_for(Dice& dice, const RandomColumn& column) {
    return column.name == "id" ? std::to_string(dice.below(keys)) : random_value(dice, column.kind);
}

}  // namespace

std::string StreamWorkload::rows(Dice& dice, const RandomTable& table, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += i > 0 ? ", (" : "(";
        for (std::size_t c = 0; c < table.columns.size(); ++c)
            text += (c > 0 ? ", " : "") + value_for(dice, table.columns[c]);
        text += ")";
    }
    return text;
}

// A condition that holds for a part of the rows.
std::string StreamWorkload::some_rows(Dice& dice, const RandomTable& table) {
    const auto& column = some_column(dice, table);
    std::string text = " where t." + column.name + " is not distinct from " + value_for(dice, column);
    if (dice.percent(50)) text += " and t.v < " + std::to_string(dice.between(1, 4));
    return text;
}

std::string StreamWorkload::insertion(Dice& dice, const RandomTable& table) {
    std::string text = "insert into " + table.name + " as t values " + rows(dice, table, dice.between(1, 4));
    if (!table.has_key) {
        if (dice.percent(10))
            text =
                "insert into " + table.name + " select * from " + table.name + " t" + some_rows(dice, table);
        return text;
    }
    if (dice.percent(40)) return text + " on conflict do nothing";
    if (dice.percent(60)) {
        const auto& column = dice.pick(table.columns);
        text = "insert into " + table.name + " as t values " + rows(dice, table, 1);
        return text + " on conflict (id) do update set " + column.name + " = excluded." + column.name;
    }
    return text;
}

std::string StreamWorkload::statement(Dice& dice) {
    const auto& table = dice.pick(schema_.tables);
    const int choice = dice.below(100);
    if (choice < 45) return insertion(dice, table);
    if (choice < 70) {
        const auto& a = some_column(dice, table);
        const auto& b = some_column(dice, table);
        std::string sets = a.name + " = " + value_for(dice, a);
        if (b.name != a.name)
            sets += ", " + b.name + " = " + (dice.percent(30) ? "t." + b.name : value_for(dice, b));
        if (table.has_key && dice.percent(20)) sets = "id = t.id + 1";
        return "update " + table.name + " t set " + sets + some_rows(dice, table);
    }
    if (choice < 90) return "delete from " + table.name + " t" + some_rows(dice, table);
    if (choice < 98)
        return "with gone as (delete from " + table.name + " t" + some_rows(dice, table) +
               " returning *) insert into " + table.name + " select * from gone" +
               (table.has_key ? " on conflict do nothing" : "");
    return "truncate " + table.name;
}

void StreamWorkload::fill() {
    Connection db(url_);
    Dice dice(seed_of_part(seed_, 1));
    for (const auto& table : schema_.tables)
        db.exec("insert into " + table.name + " values " + rows(dice, table, 8) +
                (table.has_key ? " on conflict do nothing" : ""));
}

// Keep a table small.
std::string StreamWorkload::thinning(Dice& dice, const RandomTable& table) {
    return "delete from " + table.name + " t where (select count(*) from " + table.name +
           ") > 14 and t.k is distinct from " + random_value(dice, Kind::integer);
}

std::string StreamWorkload::something_for_two_tables() {
    Dice dice(seed_of_part(seed_, 2));
    std::string text;
    for (std::size_t i = seed_ % 2; i < schema_.tables.size(); i += 2) {
        RandomTable table = schema_.tables[i];
        std::string columns;
        const bool has_key = table.has_key;
        if (has_key) table.columns.erase(table.columns.begin());
        for (const auto& column : table.columns) columns += (columns.empty() ? "" : ", ") + column.name;
        text += "insert into " + table.name + " (" + columns + (has_key ? ", id" : "") + ") select v.*" +
                (has_key ? ", 1000 + row_number() over ()" : "") + " from (values " + rows(dice, table, 8) +
                ") v;\n";
    }
    return text;
}

void StreamWorkload::transaction(Connection& db, Dice& dice) {
    db.exec(thinning(dice, dice.pick(schema_.tables)));
    const int statements = dice.between(1, 4);
    for (int i = 0; i < statements; ++i) {
        if (!dice.percent(25)) {
            db.exec(statement(dice));
            continue;
        }
        db.exec("savepoint sp");
        const bool undo = dice.percent(50);
        db.exec(statement(dice));
        db.exec(undo ? "rollback to savepoint sp" : "release savepoint sp");
    }
}

void StreamWorkload::writer(Dice dice, const std::function<bool()>& enough) {
    Connection db(url_);
    db.exec("set lock_timeout = '50ms'");
    while (!enough()) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(dice.below(60)));  // leaves the others their turn
        const bool commits = dice.percent(85);
        try {
            Transaction open(db, dice.percent(15) ? "begin isolation level repeatable read" : "begin");
            transaction(db, dice);
            if (!commits) continue;
            open.commit();
            ++committed_;
        } catch (const SqlError& error) {
            if (!is_mishap(error.sqlstate())) throw;
        }
    }
}

void StreamWorkload::late_writer(Dice dice) {
    Connection db(url_);
    db.exec("set lock_timeout = '50ms'");
    while (working_ > 0) {
        try {
            Transaction open(db);
            transaction(db, dice);
            const int until = committed_ + 12;
            while (working_ > 0 && committed_ < until)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            db.exec(statement(dice));
            open.commit();
            ++committed_;
        } catch (const SqlError& error) {
            if (!is_mishap(error.sqlstate())) throw;
        }
    }
}

void StreamWorkload::run(int writers, const std::function<bool()>& enough) {
    const std::uint64_t first = 100 + 100 * runs_++;
    std::exception_ptr failure;
    std::mutex mutex;
    const auto guarded = [&](const std::function<void()>& work) {
        try {
            work();
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
        }
    };
    working_ = writers;
    std::vector<std::jthread> threads;
    for (int i = 0; i < writers; ++i)
        threads.emplace_back([&, i] {
            guarded(
                [&] { writer(Dice(seed_of_part(seed_, first + static_cast<std::uint64_t>(i))), enough); });
            --working_;
        });
    threads.emplace_back([&] { guarded([&] { late_writer(Dice(seed_of_part(seed_, first + 99))); }); });
    threads.clear();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace baton::test
