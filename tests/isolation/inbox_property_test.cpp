// Inboxes under fire: messages come late, twice and out of order, workers crash at every step and lose their
// leases, poison blocks, processed rows are drained at once. Each message still has its effect exactly once,
// ordered ones in sequence or as they came, and nothing is left behind.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

struct Message {
    std::string id;
    std::string aggregate;
    int sequence;
    bool poison = false;    // fails for good until an operator has mended what is wrong
    bool hopeless = false;  // poison that the operator skips
};

// An inbox in order of arrival gets each aggregate's messages in order, as a broker's partition has them:
// again and again from an earlier place, and from several receivers at once, as while one takes over from
// another.
enum class Order { none, sequence, arrival };

struct Scene {
    const char* name;
    Order order;
    const char* setup;  // makes the inbox `work`
    bool is_adopted;
    Form form = Form::plain;
};

constexpr const char* managed = "select baton.create_inbox('work', max_retries => 4)";
constexpr const char* adopted =
    "create table own (msg text primary key, kind text, at timestamptz not null default now(), done "
    "timestamptz,"
    " tries int not null default 0, problem text, aggregate_id text, sequence_num bigint, payload jsonb);"
    "select baton.adopt_inbox('work', 'own', 'msg', 'done', 'tries', 'problem', 'at', 'kind', 4, "
    "retention_hours => 0)";
// Rows that somebody holds are passed over: the test must not bring in waits of its own.
std::string expire(const std::string& table, const std::string& condition = "true") {
    return "update " + table +
           " set leased_until = now() - interval '1 s' where ctid = any (array(select ctid from " + table +
           " where leased_until is not null and " + condition +
           " and random() < 0.3 for update skip locked))";
}

const Scene scenes[] = {
    {"managed", Order::none, managed, false},
    {"managed_ordered", Order::sequence, managed, false},
    {"managed_arrival", Order::arrival, managed, false},
    {"adopted", Order::none, adopted, true},
    {"adopted_ordered", Order::sequence, adopted, true},
    {"adopted_arrival", Order::arrival, adopted, true},
    {"managed_ordered_extension", Order::sequence, managed, false, Form::extension},
    {"managed_arrival_extension", Order::arrival, managed, false, Form::extension},
};

class InboxProperty : public testing::TestWithParam<Scene> {
  protected:
    static constexpr int aggregates = 15;
    static constexpr int per_aggregate = 14;
    static constexpr int workers = 10;

    void SetUp() override {
        url_ = shared_cluster(GetParam().form).fresh_database();
        Connection db(url_);
        db.exec(
            "create table effects (place bigserial primary key, event_id text, aggregate_id text, "
            "sequence_num bigint)");
        db.exec(GetParam().setup);
        if (GetParam().order == Order::sequence)
            db.exec("select baton.enable_inbox_ordering('work', sequence_num_col => 'sequence_num')");
        if (GetParam().order == Order::arrival) {
            db.exec("select baton.enable_inbox_ordering('work')");
            // What dies lets its successors pass: only poison shall.
            db.exec("select baton.alter_inbox('work', max_retries => 1000)");
        }
        db.exec(
            "select baton.alter_inbox('work', retention_hours => 0, backoff_base => '0', backoff_cap => "
            "'0')");
        for (int a = 0; a < aggregates; ++a)
            for (int s = 1; s <= per_aggregate; ++s)
                messages_.push_back({"m" + std::to_string(a) + "-" + std::to_string(s),
                                     "agg" + std::to_string(a), s, (a + s) % 12 == 0,
                                     GetParam().order != Order::none && (a + s) % 24 == 0});
    }

    std::mt19937 random_for(unsigned who) const { return std::mt19937(seed_ * 1000 + who); }

    // Deliver every message once or more in the order of its aggregate, going back a few at times; what a
    // crash took back is delivered again.
    void deliver_in_order(unsigned who) {
        auto random = random_for(who);
        std::vector<std::size_t> next(aggregates, 0);
        auto db = std::make_unique<Connection>(url_);
        const auto unfinished = [&] {
            return std::any_of(next.begin(), next.end(), [](std::size_t at) { return at < per_aggregate; });
        };
        while (unfinished()) {
            const auto aggregate = random() % aggregates;
            std::size_t& at = next[aggregate];
            at -= std::min<std::size_t>(at, random() % 4 == 0 ? random() % 6 : 0);
            std::vector<const Message*> batch;
            for (std::size_t n = at; n < std::min<std::size_t>(at + 1 + random() % 6, per_aggregate); ++n)
                batch.push_back(&messages_[aggregate * per_aggregate + n]);
            if (!batch.empty() && hand_over(db, batch, random)) at += batch.size();
        }
    }

    // Hand a batch over in one transaction; false when it did not commit.
    bool hand_over(std::unique_ptr<Connection>& db, const std::vector<const Message*>& batch,
                   std::mt19937& random) {
        try {
            Transaction tx(*db, random() % 5 == 0 ? "begin isolation level repeatable read" : "begin");
            const auto fresh = random() % 3 == 0 ? receive_singly(*db, batch) : receive_batch(*db, batch);
            if (random() % 8 == 0) {  // the receiver dies before its commit: the broker delivers again
                ::shutdown(PQsocket(db->native()), SHUT_RDWR);
            } else {
                tx.commit();
                const std::lock_guard hold(guard_);
                for (const auto& id : fresh) ++new_[id];
                return true;
            }
        } catch (const SqlError& error) {
            EXPECT_EQ(error.sqlstate(), "40001") << error.what();
            return false;
        }
        db = std::make_unique<Connection>(url_);
        return false;
    }

    // Deliver every message once or more, in any order and batch; redeliver what a crash took back.
    void deliver(unsigned who) {
        auto random = random_for(who);
        std::vector<const Message*> queue;
        for (const auto& message : messages_)
            for (unsigned n = 1 + random() % 2; n > 0; --n) queue.push_back(&message);
        std::shuffle(queue.begin(), queue.end(), random);
        auto db = std::make_unique<Connection>(url_);
        while (!queue.empty()) {
            std::vector<const Message*> batch;
            for (unsigned n = 1 + random() % 6; n > 0 && !queue.empty(); --n) {
                batch.push_back(queue.back());
                queue.pop_back();
            }
            if (!hand_over(db, batch, random)) queue.insert(queue.begin(), batch.begin(), batch.end());
        }
    }

    static std::string describe(const Message& m) {
        return R"({"event_id": ")" + m.id + R"(", "event_type": "t", "aggregate_id": ")" + m.aggregate +
               R"(", "sequence_num": )" + std::to_string(m.sequence) + R"(, "payload": {"of": ")" + m.id +
               R"("}})";
    }

    static std::vector<std::string> receive_batch(Connection& db, const std::vector<const Message*>& batch) {
        std::string json = "[";
        for (const auto* message : batch) json += (json.size() > 1 ? "," : "") + describe(*message);
        const auto result = db.query(
            "select event_id from baton.receive_many('work', $1) where outcome = 'new'", {json + "]"});
        std::vector<std::string> fresh;
        for (int row = 0; row < result.rows(); ++row) fresh.emplace_back(result.text(row, 0));
        return fresh;
    }

    // One by one; sorted, because whoever waits for two keys in two orders may wait for ever. What comes in
    // order comes to all receivers in the same.
    static std::vector<std::string> receive_singly(Connection& db, std::vector<const Message*> batch) {
        if (GetParam().order != Order::arrival)
            std::sort(batch.begin(), batch.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
        std::vector<std::string> fresh;
        for (const auto* m : batch)
            if (db.value(
                    "select baton.receive('work', $1, 't', '{}', aggregate_id => $2, sequence_num => $3)",
                    {m->id, m->aggregate, m->sequence}) == "new")
                fresh.push_back(m->id);
        return fresh;
    }

    // Claim and handle until everything is done; crash, fail and dawdle on the way.
    void work(unsigned who) {
        auto random = random_for(100 + who);
        auto db = std::make_unique<Connection>(url_);
        while (!finished_) {
            const auto claimed = db->query(
                "select event_id, aggregate_id, sequence_num, lease_token from baton.claim_inbox('work', $1, "
                "$2, 60)",
                {"worker-" + std::to_string(who), 1 + static_cast<int>(random() % 4)});
            if (claimed.empty()) std::this_thread::yield();
            for (int row = 0; row < claimed.rows(); ++row) {
                if (random() % 12 == 0) {  // dies with messages in hand
                    db = std::make_unique<Connection>(url_);
                    break;
                }
                handle(db, claimed, row, random);
            }
        }
    }

    void handle(std::unique_ptr<Connection>& db, const postgres::Result& claimed, int row,
                std::mt19937& random) {
        const std::string id(claimed.text(row, 0)), token(claimed.text(row, 3));
        try {
            if (is_broken(id)) {
                db->query("select baton.fail('work', $1, 'poison', true, $2)", {id, token});
                return;
            }
            if (random() % 12 == 0) {
                db->query("select baton.fail('work', $1, 'no luck', false, $2)", {id, token});
                return;
            }
            Transaction tx(*db);
            db->query("insert into effects (event_id, aggregate_id, sequence_num) values ($1, $2, $3)",
                      {id, claimed.text(row, 1), claimed.text(row, 2)});
            if (random() % 12 == 0) return;  // rolled back before completing
            db->query("select baton.complete('work', $1, $2)", {id, token});
            if (random() % 12 == 0) {  // the connection breaks before the commit
                Connection(url_).query("select pg_terminate_backend($1)", {db->backend_pid()});
                EXPECT_THROW(tx.commit(), Error);
                db = std::make_unique<Connection>(url_);
                return;
            }
            tx.commit();
        } catch (const SqlError& error) {  // somebody else has it: roll back and go on
            ASSERT_EQ(error.sqlstate(), "BT001") << error.what();
        }
    }

    bool is_broken(const std::string& id) {
        const std::lock_guard hold(guard_);
        const auto it =
            std::find_if(messages_.begin(), messages_.end(), [&](const auto& m) { return m.id == id; });
        return it->poison && !mended_.contains(id);
    }

    // Let leases run out, drain, and look after the dead letters, until everything is done.
    void operate() {
        Connection db(url_);
        const std::string key = GetParam().is_adopted ? "msg" : "event_id";
        while (!finished_) {
            db.exec(GetParam().is_adopted ? expire("baton_internal.inbox_work")
                                          : expire("work", "processed_at is null"));
            if (GetParam().order != Order::none) db.exec(expire("baton_internal.inbox_sequences"));
            db.exec("select baton.run_inbox_maintenance()");
            const auto dead = db.query("select " + key + ", aggregate_id, sequence_num from dlq_work");
            for (int row = 0; row < dead.rows(); ++row) bring_back(db, dead, row);
            finished_ = finished_ || settled(db);
        }
    }

    void bring_back(Connection& db, const postgres::Result& dead, int row) {
        const std::string id(dead.text(row, 0));
        const auto& message =
            *std::find_if(messages_.begin(), messages_.end(), [&](const auto& m) { return m.id == id; });
        if (message.hopeless) {
            if (GetParam().order == Order::sequence &&
                db.value("select coalesce((select last_sequence from baton_internal.inbox_sequences where "
                         "aggregate = "
                         "$1), 0)",
                         {message.aggregate}) == std::to_string(message.sequence - 1))
                db.query("select baton.advance_inbox_sequence('work', $1)", {message.aggregate});
            return;
        }
        {
            const std::lock_guard hold(guard_);
            mended_.insert(id);
        }
        db.query("select baton.replay_inbox_messages('work', array[$1])", {id});
    }

    long expected_effects() const {
        return std::count_if(messages_.begin(), messages_.end(), [](const auto& m) { return !m.hopeless; });
    }

    bool settled(Connection& db) const {
        return db.value("select count(distinct event_id) from effects") == std::to_string(expected_effects());
    }

    std::string url_;
    unsigned seed_ = std::random_device{}() % 100000;
    std::vector<Message> messages_;
    std::mutex guard_;
    std::set<std::string> mended_;
    std::map<std::string, int> new_;
    std::atomic<bool> finished_ = false;
};

}  // namespace

TEST_P(InboxProperty, every_message_has_its_effect_once_and_in_order) {
    SCOPED_TRACE("seed " + std::to_string(seed_));
    std::vector<std::future<void>> tasks;
    const bool in_order = GetParam().order == Order::arrival;
    // An adopted table tells arrivals apart by its own clock, which one receiver at a time keeps in order.
    for (unsigned n = 0; n < (in_order && GetParam().is_adopted ? 1U : 3U); ++n)
        tasks.push_back(std::async(std::launch::async,
                                   [this, n, in_order] { in_order ? deliver_in_order(n) : deliver(n); }));
    for (unsigned n = 0; n < workers; ++n)
        tasks.push_back(std::async(std::launch::async, [this, n] { work(n); }));
    tasks.push_back(std::async(std::launch::async, [this] { operate(); }));
    Connection db(url_);
    try {
        wait_until(
            "every message has had its effect", [&] { return finished_.load(); }, std::chrono::minutes(4));
    } catch (const Error& error) {
        ADD_FAILURE() << error.what() << ": " << db.value("select count(distinct event_id) from effects")
                      << " of " << expected_effects();
    }
    finished_ = true;
    for (auto& task : tasks) task.get();

    EXPECT_EQ(
        db.value("select count(*) from (select event_id from effects group by 1 having count(*) > 1) twice"),
        "0");
    EXPECT_EQ(db.value("select count(*) from effects"), std::to_string(expected_effects()));
    for (const auto& message : messages_) EXPECT_EQ(new_[message.id], 1) << message.id << " was new so often";
    if (GetParam().order == Order::none) return;
    std::string skipped = "{";  // in order of arrival, what died and was replayed has lost its place
    for (const auto& message : messages_)
        if (in_order && message.poison) skipped += (skipped.size() > 1 ? "," : "") + message.id;
    EXPECT_EQ(db.value("select count(*) from (select sequence_num < lag(sequence_num) over (partition by "
                       "aggregate_id order by place) as late"
                       " from effects where event_id <> all ($1::text[])) e where late",
                       {skipped + "}"}),
              "0");
}

TEST_P(InboxProperty, what_was_processed_and_drained_is_still_known) {
    Connection db(url_);
    std::vector<const Message*> all;
    for (const auto& message : messages_) all.push_back(&message);
    EXPECT_EQ(receive_batch(db, all).size(), all.size());
    db.exec(std::string("update ") + (GetParam().is_adopted ? "own set done" : "work set processed_at") +
            " = now() - interval '1 s' where sequence_num = 1");
    db.exec("select baton.run_inbox_maintenance()");
    EXPECT_EQ(db.value("select count(*) from pending_work"),
              std::to_string(aggregates * (per_aggregate - 1)));
    EXPECT_TRUE(receive_batch(db, all).empty());
    EXPECT_TRUE(receive_singly(db, all).empty());
}

INSTANTIATE_TEST_SUITE_P(, InboxProperty, testing::ValuesIn(scenes),
                         [](const auto& scene) { return std::string(scene.param.name); });
