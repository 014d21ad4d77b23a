// Sessions that write to sources, refresh, make, change and drop stream tables are cancelled and terminated
// at random moments, and the server is killed under them. When all is quiet, each stream table and its outbox
// are right, and nothing is left of what was interrupted.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "isolation/stream_subject.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

// Sessions that each repeat something, whatever happens to them.
class Sessions {
  public:
    explicit Sessions(std::string url) : url_(std::move(url)) {}
    ~Sessions() { stop(); }

    using Step = std::function<void(Connection&, std::mt19937&)>;
    void add(unsigned seed, Step step) {
        threads_.emplace_back([this, seed, step = std::move(step)] {
            std::mt19937 random(seed);
            while (!over_) attempt(step, random);
        });
    }
    void stop() {
        over_ = true;
        for (auto& thread : threads_) thread.join();
        threads_.clear();
    }
    long done() const { return done_; }
    long interrupted() const { return interrupted_; }
    // What no interruption explains.
    std::string errors() {
        const std::lock_guard lock(mutex_);
        std::string all;
        for (const auto& error : errors_) all += error + "\n";
        return all;
    }

  private:
    void attempt(const Step& step, std::mt19937& random) {
        try {
            Connection db(url_, "subject");
            db.exec("set lock_timeout = '2s'");
            while (!over_) take(step, db, random);
        } catch (const ConnectionError&) {
            ++interrupted_;
            std::this_thread::sleep_for(5ms);
        }
    }
    void take(const Step& step, Connection& db, std::mt19937& random) {
        try {
            step(db, random);
            ++done_;
        } catch (const SqlError& error) {
            // Cancelled, shut down; or two who were in each other's way.
            const std::set<std::string> explained{"57014", "57P01", "57P02", "57P03",
                                                  "40P01", "55P03", "40001"};
            if (error.sqlstate() == "57014") ++interrupted_;
            if (!explained.contains(error.sqlstate())) {
                const std::lock_guard lock(mutex_);
                errors_.insert(error.sqlstate() + " " + error.what());
            }
            if (db.in_transaction()) db.exec("rollback");
        }
    }

    std::string url_;
    std::vector<std::thread> threads_;
    std::atomic<bool> over_{false};
    std::atomic<long> done_{0}, interrupted_{0};
    std::mutex mutex_;
    std::set<std::string> errors_;
};

void write(Connection& db, std::mt19937& random) {
    db.exec("begin");
    change_sources(db, static_cast<int>(random() % 1000));
    if (random() % 3 == 0) {
        db.exec("savepoint part");
        change_sources(db, static_cast<int>(random() % 1000));
        db.exec("rollback to part");
    }
    db.exec(random() % 5 == 0 ? "rollback" : "commit");
}

void refresh(Connection& db, std::mt19937& random) {
    db.query("select baton.refresh_stream_table($1)", {"tester." + subject_names[random() % 4]});
}

void alter(Connection& db, std::mt19937& random) {
    db.query(
        "select baton.alter_stream_table('tester.totals', query => format($1, $2::int))",
        {"select customer, count(*) as orders, sum(amount) as total from public.orders where amount > %s "
         "group by customer",
         static_cast<int>(random() % 5)});
}

// Make and drop one that no other session knows, over a source whose capture comes and goes with it.
Sessions::Step come_and_go(const std::string& guest) {
    return [guest](Connection& db, std::mt19937& random) {
        db.query("select baton.drop_stream_table($1, if_exists => true, cascade => true)", {guest});
        db.query(
            "select baton.create_stream_table($1, 'select v, count(*) as n from public.loose group by v', "
            "null)",
            {guest});
        if (random() % 2 == 0) db.query("select baton.enable_outbox($1)", {guest});
        db.exec("update loose set v = v + 1 where v % 3 = 0");
        db.query("select baton.refresh_stream_table($1)", {guest});
    };
}

void tidy_up(Connection& db, std::mt19937&) {
    db.exec("select baton_internal.maintain_streams()");
}

class StreamInterrupt : public testing::Test {
  protected:
    static Cluster& cluster() {
        static Cluster own(Form::extension);
        return own;
    }
    void start(Sessions& sessions, unsigned seed) const {
        sessions.add(seed, write);
        sessions.add(seed + 1, write);
        sessions.add(seed + 2, refresh);
        sessions.add(seed + 3, refresh);
        sessions.add(seed + 4, alter);
        sessions.add(seed + 5, come_and_go("tester.guest"));
        sessions.add(seed + 6, come_and_go("tester.visitor"));
        sessions.add(seed + 7, tidy_up);
    }
    // Interrupt one session after the other until so many were.
    void harass(Sessions& sessions, unsigned seed, long times) const {
        Connection db(url);
        std::mt19937 random(seed);
        wait_until("sessions were interrupted", [&] {
            db.query("select " +
                     std::string(random() % 2 == 0 ? "pg_cancel_backend" : "pg_terminate_backend") +
                     "(pid) from (select pid from pg_stat_activity where application_name = 'subject' and "
                     "datname = current_database() and state = 'active' order by random() limit 1) s");
            std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
            return sessions.interrupted() >= times;
        });
    }
    void expect_all_to_be_right(const std::string& made) const {
        Connection db(url);
        for (const auto* guest : {"tester.guest", "tester.visitor"}) {
            if (db.value("select to_regclass($1) is null", {guest}) == "t") continue;
            db.query("select baton.refresh_stream_table($1)", {guest});
            EXPECT_EQ(db.value("select format('%s %s', missing, surplus) from baton.verify_stream_table($1)",
                               {guest}),
                      "0 0");
            db.query("select baton.drop_stream_table($1, cascade => true)", {guest});
        }
        db.exec(
            "select baton.alter_stream_table('tester.totals', query => 'select customer, count(*) as "
            "orders, sum(amount) as total from public.orders group by customer')");
        refresh_all(db);
        EXPECT_EQ(subject_differences(db), "");
        EXPECT_EQ(refresh_all(db), "DIFFERENTIAL DIFFERENTIAL FULL DIFFERENTIAL");
        db.exec("select baton_internal.maintain_streams()");
        EXPECT_EQ(inventory(db), made);
    }

    std::string url = cluster().quiet_database();
};

}  // namespace

TEST_F(StreamInterrupt, cancelled_terminated_and_killed_sessions_leave_everything_right) {
    std::string made;
    {
        Connection db(url);
        make_sources(db);
        db.exec("create table loose (v int); insert into loose select generate_series(1, 50)");
        make_stream_tables(db);
        made = inventory(db);
    }
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (unsigned round = 0; round < 2; ++round) {
        Sessions sessions(url);
        start(sessions, seed + 10 * round);
        harass(sessions, seed + round, 60);
        if (round == 1) {
            cluster().server().kill_hard();
            sessions.stop();
            cluster().server().start();
        }
        sessions.stop();
        EXPECT_GT(sessions.done(), 20);
        EXPECT_EQ(sessions.errors(), "");
        expect_all_to_be_right(made);
    }
}
