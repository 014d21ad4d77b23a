// Workers of libbaton are killed at every step, and stopped for longer than their leases; each delivery still
// has its effect exactly once, in order per key.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>

#include "baton/baton.hpp"
#include "support/cluster.hpp"

using namespace baton::test;
using namespace std::chrono_literals;

namespace {

struct Scene {
    const char* name;
    Form form;
    bool group;
    bool batches;
};

constexpr int keys = 12;
constexpr int per_key = 25;
constexpr int workers = 4;
constexpr int kills = 12;

// A worker process: handles until it is killed, and now and then kills itself where it hurts.
class Child {
  public:
    Child(const Scene& scene, const std::string& url, unsigned seed) : pid_(::fork()) {
        if (pid_ != 0) return;
        std::mt19937 random(seed);
        const auto maybe_die = [&random] {
            if (random() % 60 == 0) ::raise(SIGKILL);
        };
        const auto handle = [&](baton::Transaction& tx, const baton::Delivery& delivery) {
            maybe_die();
            if (random() % 25 == 0) throw baton::Retry("bad luck", 1ms);
            tx.query(
                "insert into effects (key, n) select d ->> 'key', (d ->> 'n')::int from (select $1::jsonb) x "
                "(d)",
                {delivery.payload});
            tx.query("update totals set total = total + 1 where key = $1", {delivery.aggregate_id});
            maybe_die();
            if (random() % 25 == 0) throw std::runtime_error("fails after its writes");
        };
        try {
            const baton::WorkOptions options{.conninfo = url, .batch = 6, .lease = 1s, .idle = 20ms};
            baton::Handler handler = handle;
            if (scene.batches)
                handler = [&](baton::Transaction& tx, std::span<const baton::Delivery> batch) {
                    for (const auto& delivery : batch) handle(tx, delivery);
                };
            if (scene.group)
                baton::GroupConsumer("work", options, handler).run({});
            else
                baton::InboxWorker("work", options, handler).run({});
        } catch (const std::exception& error) {
            std::fprintf(stderr, "worker: %s\n", error.what());
        }
        ::_exit(1);
    }
    ~Child() { end(); }
    Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
    Child& operator=(Child&& other) noexcept {
        end();
        pid_ = std::exchange(other.pid_, -1);
        return *this;
    }

    // True when it has died, by its own hand or by an error.
    bool died() {
        int status = 0;
        if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return pid_ <= 0;
        pid_ = -1;
        EXPECT_TRUE(WIFSIGNALED(status)) << "a worker gave up";
        return true;
    }
    void signal(int number) const {
        if (pid_ > 0) ::kill(pid_, number);
    }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

  private:
    pid_t pid_;
};

class Crashing : public testing::TestWithParam<Scene> {
  protected:
    void SetUp() override {
        admin.exec("create table effects (place bigserial primary key, key text, n int)");
        admin.exec("create table totals (key text primary key, total int not null default 0)");
        admin.query("insert into totals select k::text from generate_series(1, $1::int) k", {keys});
        if (GetParam().group) {
            admin.exec("select baton.create_outbox('source')");
            admin.exec(
                "select baton.create_consumer_group('work', 'source', 'earliest', max_attempts => 1000, "
                "retry_base => '1 ms', retry_limit => '1 ms')");
        } else {
            admin.exec("select baton.create_inbox('work', max_retries => 1000)");
            admin.exec("select baton.alter_inbox('work', backoff_base => '0', backoff_cap => '0')");
            admin.exec("select baton.enable_inbox_ordering('work', sequence_num_col => 'sequence_num')");
        }
    }

    // Bring in one message of each key.
    void bring(int n) {
        const char* sql =
            GetParam().group
                ? "select baton.publish('source', 'thing', jsonb_build_object('key', k::text, 'n', $1::int), "
                  "aggregate_id => k::text) from generate_series(1, $2::int) k"
                : "select baton.receive('work', k || '-' || $1::int, 'thing', jsonb_build_object('key', "
                  "k::text, "
                  "'n', $1::int), aggregate_id => k::text, sequence_num => $1::int) from generate_series(1, "
                  "$2::int) k";
        admin.query(sql, {n, keys});
    }

    int effects() { return std::stoi(admin.value("select count(*) from effects")); }

    std::string url = shared_cluster(GetParam().form).fresh_database();
    Connection admin{url};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Scenes, Crashing,
                         testing::Values(Scene{"group_extension", Form::extension, true, false},
                                         Scene{"group_plain_batches", Form::plain, true, true},
                                         Scene{"inbox_plain", Form::plain, false, false}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Crashing, killed_workers_leave_each_effect_exactly_once_and_in_order) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<Child> children;
    children.reserve(workers);
    for (int w = 0; w < workers; ++w) children.emplace_back(GetParam(), url, random());

    int brought = 0;
    int killed = 0;
    int kill_at = 5;
    int pause = 0;  // looks until a worker that was stopped for longer than its lease may go on
    wait_until(
        "every effect is there",
        [&] {
            const int done = effects();
            if (brought < per_key && done >= keys * (brought - 3)) bring(++brought);
            if (killed < kills && done >= kill_at) {  // somewhere in the middle of whatever it does
                children[random() % children.size()].end();
                ++killed;
                kill_at = done + 1 + static_cast<int>(random() % (keys * per_key / kills));
            }
            if (pause == 0 && brought < per_key) {
                children.front().signal(SIGSTOP);
                pause = 300;
            }
            if (pause > 0 && --pause == 0) {
                children.front().signal(SIGCONT);
                std::rotate(children.begin(), children.begin() + 1, children.end());
            }
            for (auto& child : children)
                if (child.died()) child = Child(GetParam(), url, random());
            return pause == 0 && done >= keys * per_key;
        },
        240s);
    EXPECT_GT(killed, 3);
    wait_until("everything is settled", [&] {
        for (auto& child : children)
            if (child.died()) child = Child(GetParam(), url, random());
        return admin.value(
                   GetParam().group
                       ? "select not exists (select from baton_internal.pieces) and not exists (select from "
                         "baton_internal.parked)"
                       : "select not exists (select from pending_work)") == "t";
    });
    children.clear();

    EXPECT_EQ(admin.value("select count(*) || ' ' || count(distinct (key, n)) from effects"),
              std::to_string(keys * per_key) + " " + std::to_string(keys * per_key));
    EXPECT_EQ(admin.value("select count(*) from totals where total <> $1::int", {per_key}), "0");
    EXPECT_EQ(
        admin.value("select count(*) from (select n, lag(n) over (partition by key order by place) as before "
                    "from effects) e where n <> coalesce(before, 0) + 1"),
        "0")
        << "a key is out of order";
}
