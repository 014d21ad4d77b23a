// Random transactions of several sessions on two sources: in every snapshot that somebody takes meanwhile,
// the rows of the beginning with the changes up to there are the rows of then.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "isolation/stream_capture.hpp"

using namespace baton;
using namespace baton::test;

namespace {

constexpr int sessions = 4;
constexpr int transactions = 60;

class Writer {
  public:
    Writer(const std::string& url, unsigned seed) : db_(url), random_(seed) {
        db_.exec("set lock_timeout = '200ms'");
    }

    void run() {
        for (int i = 0; i < transactions; ++i) {
            try {
                run_transaction();
            } catch (const SqlError& error) {
                const auto& state = error.sqlstate();
                if (state != "40P01" && state != "55P03" && state != "40001") throw;
                db_.exec("rollback");
            }
        }
    }

  private:
    std::string number(int most) { return std::to_string(std::uniform_int_distribution<>(0, most)(random_)); }
    template <std::size_t N>
    std::string one_of(const std::array<const char*, N>& choices) {
        return choices[std::uniform_int_distribution<std::size_t>(0, N - 1)(random_)];
    }

    std::string statement() {
        static constexpr std::array sources{"flat", "flat", "parted", "parted", "low", "high"};
        const auto source = one_of(sources);
        const bool moves = source == "parted";
        const auto id = source == "high" ? "100 + " + number(99) : source == "low" ? number(99) : number(199);
        switch (std::uniform_int_distribution<>(0, 11)(random_)) {
            case 0:
            case 1:
            case 2:
                return "insert into " + source + " (id, v, n) select " + id + ", repeat('v' || g, " +
                       number(3) + "), (g % 3)::numeric / 2 from generate_series(1, " + number(8) + ") g";
            case 3:
            case 4:
                return "update " + source + " set v = v || 'w' where id % 5 = " + number(4) +
                       " and length(v) < 100";
            case 5:
                return "update " + source + " set unused = unused + 1 where id % 3 = " + number(2);
            case 6:
                return "update " + source + " set n = n * 1.00 where id % 6 = " + number(5);
            case 7:
                return moves ? "update parted set id = (id + 100) % 200 where id % 7 = " + number(6)
                             : "update " + source + " set v = null where id % 9 = " + number(8);
            case 8:
            case 9:
                return "delete from " + source + " where id % 8 = " + number(7);
            case 10:
                return "with gone as (delete from " + source + " where id % 11 = " + number(10) +
                       " returning *) insert into flat (id, v, n) select id, v, n from gone";
            default:
                return number(3) == "0" ? "truncate " + source : "select 1";
        }
    }

    void run_transaction() {
        static constexpr std::array begins{"begin", "begin", "begin isolation level repeatable read"};
        db_.exec(one_of(begins));
        const int statements = std::uniform_int_distribution<>(1, 6)(random_);
        for (int i = 0; i < statements; ++i) {
            const bool nested = number(2) == "0";
            if (nested) db_.exec("savepoint s");
            db_.exec(statement());
            if (nested && number(1) == "0") db_.exec("rollback to s");
        }
        db_.exec(number(4) == "0" ? "rollback" : "commit");
    }

    Connection db_;
    std::mt19937 random_;
};

class StreamCaptureProperty : public testing::TestWithParam<unsigned> {};

}  // namespace

TEST_P(StreamCaptureProperty, the_buffer_tells_of_every_change_in_every_snapshot) {
    const auto url = shared_cluster(Form::extension).quiet_database();
    Connection db(url);
    db.exec(
        "create table flat (id int, gone int, v text, n numeric, unused int default 0); alter table flat "
        "drop gone;"
        "create table parted (id int, v text, n numeric, unused int default 0) partition by range (id);"
        "create table low partition of parted for values from (0) to (100);"
        "create table high (n numeric, unused int default 0, gone int, v text, id int); alter table high "
        "drop gone;"
        "alter table parted attach partition high for values from (100) to (200);"
        "insert into flat (id, v, n) select g, 'v', 1.0 from generate_series(1, 50) g;"
        "insert into parted (id, v, n) select g * 4, 'v', 1.0 from generate_series(0, 49) g");
    const CapturedSource flat(db, "flat", {"id", "v", "n"});
    const CapturedSource parted(db, "parted", {"id", "v", "n"});
    std::atomic<int> running{sessions};
    std::vector<std::future<void>> writers;
    for (unsigned n = 0; n < sessions; ++n)
        writers.push_back(std::async(std::launch::async, [&, n] {
            const auto done = [&running](void*) { --running; };
            const std::unique_ptr<void, decltype(done)> at_end(&running, done);
            Writer(url, GetParam() * 1000 + n).run();
        }));
    while (running > 0) {
        ASSERT_EQ(flat.differences(db), "0");
        ASSERT_EQ(parted.differences(db), "0");
    }
    for (auto& writer : writers) writer.get();
    EXPECT_EQ(flat.differences(db), "0");
    EXPECT_EQ(parted.differences(db), "0");
    EXPECT_NE(flat.weights(db), "none");
    EXPECT_EQ(db.value("select count(*) from " + flat.buffer() + " where weight = 0"), "0");
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamCaptureProperty, testing::Values(1U, 2U, 3U));
