#include "isolation/stream_tester.hpp"

#include <algorithm>
#include <thread>

#include "isolation/stream_keeper.hpp"

namespace baton::test {

namespace {

constexpr int most_rows = 1500;
constexpr const char* patience = "set statement_timeout = '60s'";

}  // namespace

StreamTester::StreamTester(std::string url, StreamPlan plan)
    : url_(std::move(url)), plan_(std::move(plan)), db_(url_) {
    Dice dice(seed_of_part(plan_.seed, 0));
    schema_ = random_schema(dice);
    db_.exec("set client_min_messages = warning; set jit = off");
    db_.exec(schema_.text);
    db_.exec(stream_keeper);
    workload_ = std::make_unique<StreamWorkload>(url_, schema_, plan_.seed);
}

// The query with that number; those that give too much, or are none, are passed over.
std::string StreamTester::reasonable_query(int number) {
    for (std::uint64_t attempt = 0;; ++attempt) {
        Dice dice(seed_of_part(plan_.seed, 1000 + static_cast<std::uint64_t>(number) * 100 + attempt));
        std::string query = random_query(dice, schema_).text;
        try {
            const auto rows = db_.value("select count(*) from (select from (" + query + ") q limit " +
                                        std::to_string(most_rows) + ") q");
            if (std::stoi(rows) < most_rows) return query;
        } catch (const SqlError&) {
        }
        ++rejected_;
    }
}

void StreamTester::make_stream_table(int number) {
    StreamTable table{number, "q" + std::to_string(number), reasonable_query(number)};
    std::vector<StreamMutation> mutations = plan_.mutations;
    auto counts = mutants();
    std::stable_sort(mutations.begin(), mutations.end(), [&](const auto& a, const auto& b) {
        return counts[a.name].first < counts[b.name].first;
    });
    std::vector<std::string> expressions;
    for (const auto& mutation : mutations) expressions.push_back(mutation.expression);
    try {
        const auto made =
            db_.query("select reason, mutation from tester.make($1, $2, $3, $4)",
                      {table.name, table.query, postgres::array_literal(expressions), number % 3 == 0});
        if (made.is_null(0, 0)) return;
        if (!made.is_null(0, 1)) table.mutation = mutations[std::stoul(made.text(0, 1)) - 1].name;
        table.is_differential = made.text(0, 0).empty();
        ++(table.is_differential ? differential_ : full_);
    } catch (const SqlError& error) {
        fault(table, std::string("making it: ") + error.what(), true);
    }
    tables_.push_back(table);
}

bool StreamTester::is_faulty(const StreamTable& table) {
    const std::lock_guard lock(mutex_);
    return faulty_.contains(table.number);
}

void StreamTester::fault(const StreamTable& table, const std::string& what, bool is_error) {
    const std::lock_guard lock(mutex_);
    if (faulty_.insert(table.number).second)
        faults_.push_back({table.number, table.query + "\n" + what, is_error});
}

std::string StreamTester::report() const {
    std::string text;
    for (const auto& fault : faults_)
        text += "BATON_STREAM_SEED=" + std::to_string(plan_.seed) +
                " BATON_STREAM_ONLY=" + std::to_string(fault.query) + " runs it alone: " + fault.text +
                "\n\n";
    return text + schema_.text;
}

std::map<std::string, std::pair<int, int>> StreamTester::mutants() const {
    std::map<std::string, std::pair<int, int>> counts;
    for (const auto& mutation : plan_.mutations) counts[mutation.name];
    for (const auto& table : tables_) {
        if (table.mutation.empty()) continue;
        ++counts[table.mutation].first;
        counts[table.mutation].second +=
            static_cast<int>(std::count_if(faults_.begin(), faults_.end(), [&](const Fault& fault) {
                return fault.query == table.number && !fault.is_error;
            }));
    }
    return counts;
}

// Some queries join so much that following their changes takes minutes, whatever they leave of it.
void StreamTester::give_up(const StreamTable& table) {
    const std::lock_guard lock(mutex_);
    if (faulty_.insert(table.number).second) ++slow_;
}

void StreamTester::refresh(Connection& db, const StreamTable& table) {
    if (is_faulty(table)) return;
    try {
        const auto mode =
            db.value("select mode from baton.refresh_stream_table($1)", {"tester." + table.name});
        ++refreshes_;
        // A differential refresh that does not find what it must delete is undone and made good in full.
        if (mode == "FULL" && table.is_differential) fault(table, "its refresh was full");
    } catch (const SqlError& error) {
        if (error.sqlstate() == "57014")
            give_up(table);
        else if (error.sqlstate() != "40P01")
            fault(table, "refreshing it: " + error.sqlstate() + " " + error.what(), true);
    }
}

void StreamTester::refresh_each(std::atomic<std::size_t>& next) {
    Connection db(url_);
    db.exec(patience);
    for (std::size_t i = next++; i < tables_.size(); i = next++) refresh(db, tables_[i]);
}

// Every stream table is refreshed once, while writers write. With a late commit there is a transaction which
// is older than all of that, and commits after it.
void StreamTester::work_and_refresh(bool with_late_commit) {
    Connection late(url_);
    Transaction open(late);
    if (with_late_commit) late.exec(workload_->something_for_two_tables());
    std::atomic<std::size_t> next = 0;
    std::atomic<int> refreshers = 2;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
            refresh_each(next);
            --refreshers;
        });
    const int before = workload_->committed();
    workload_->run(3, [&] { return refreshers == 0 && workload_->committed() > before + 10; });
    threads.clear();
    if (with_late_commit) open.commit();
}

// Refreshing and comparing are one transaction, so that the time is the same.
void StreamTester::compare(const StreamTable& table) {
    Transaction open(db_);
    refresh(db_, table);
    if (is_faulty(table)) return;
    const auto differences = db_.value("select tester.differences($1)", {table.name});
    if (!differences.empty()) fault(table, differences);
    open.commit();
}

void StreamTester::run() {
    db_.exec(patience);
    workload_->fill();
    for (int number = 0; number < plan_.queries; ++number)
        if (plan_.only < 0 || number == plan_.only) make_stream_table(number);
    for (int wave = 1; wave <= plan_.waves; ++wave) {
        work_and_refresh(wave == plan_.waves);
        for (const auto& table : tables_) compare(table);
    }
}

}  // namespace baton::test
