// Random steps of writers, consumers and operators on a real server, each checked against the model in
// group_model.hpp. A seed gives the same steps again: BATON_MODEL_SEED runs one, BATON_MODEL_STEPS makes runs
// longer, BATON_MODEL_RUNS makes more of them with seeds of their own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>

#include "isolation/group_model.hpp"
#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

using Answer = GroupModel::Answer;
using Life = GroupModel::Life;

int from_environment(const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
}

constexpr const char* consumers[] = {"ann", "ben", "cleo"};

class Story {
  public:
    Story(Cluster& cluster, unsigned seed)
        : cluster_(cluster), url_(cluster.quiet_database()), random_(seed), seed_(seed) {
        admin_ = std::make_unique<Connection>(url_);
        admin_->exec(
            "select baton.create_outbox('events', partition_interval => '1 ms', retention => '0 s'); "
            "select baton.create_consumer_group('keyed', 'events', 'earliest', max_attempts => 1000000, "
            "retry_base => '0 s', "
            "retry_limit => '0 s'); "
            "select baton.create_consumer_group('loose', 'events', 'earliest', ordered => false, "
            "max_attempts => 1000000, "
            "retry_base => '0 s', retry_limit => '0 s'); "
            "select baton.create_consumer_group('strict', 'events', 'earliest', max_attempts => 4, "
            "retry_base => '0 s', "
            "retry_limit => '0 s')");
        groups_.emplace_back(log_, "keyed", true, 1000000);
        groups_.emplace_back(log_, "loose", false, 1000000);
        groups_.emplace_back(log_, "strict", true, 4);
        for (auto& writer : writers_) writer.connection = std::make_unique<Connection>(url_);
        connect();
    }

    void steps(int count) {
        for (step_ = 1; step_ <= count; ++step_) step();
        for (auto& writer : writers_)
            if (writer.open) end(writer, true);
    }

    // Whatever is committed must come until it is settled or dead.
    void drain() {
        for (GroupModel& group : groups_) {
            for (int empty = 0; empty < 20 && !group.unsettled().empty(); ++step_) {
                if (poll(group, "drain", 50).empty()) {
                    ++empty;
                    for (const auto& [token, lease] : group.leases())
                        if (lease.life == Life::alive && lease.consumer != "drain") run_out(group, token);
                    continue;
                }
                empty = 0;
                const auto& [token, lease] = *std::ranges::find_if(group.leases(), [](const auto& entry) {
                    return entry.second.consumer == "drain" && !entry.second.held.empty();
                });
                commit(group, "drain", token, lease.held.back(), true);
            }
            std::string left;
            for (const long id : group.unsettled()) left += " " + std::to_string(id);
            if (!left.empty()) throw Fault("group " + group.name() + " never got" + left);
        }
    }

    // The last steps, for whoever looks for the cause.
    std::string story() const {
        std::string text = "seed " + std::to_string(seed_) + ", the last steps:\n";
        const std::size_t first = story_.size() > 200 ? story_.size() - 200 : 0;
        for (std::size_t i = first; i < story_.size(); ++i) text += story_[i] + "\n";
        return text;
    }

    // What the server remembers of its groups, for the same reader.
    std::string catalog() {
        std::string text;
        for (const char* table : {"group_positions", "windows", "pieces", "parked"}) {
            text += std::string(table) + ":\n";
            const auto rows = Connection(url_).query("select t from baton_internal." + std::string(table) +
                                                     " t order by t::text");
            for (int row = 0; row < rows.rows(); ++row) text += "  " + rows.text(row, 0) + "\n";
        }
        return text;
    }

  private:
    struct Writer {
        std::unique_ptr<Connection> connection;
        bool open = false;
        std::vector<long> wrote;
    };

    int dice(int sides) { return static_cast<int>(random_() % static_cast<unsigned>(sides)); }
    template <class Container>
    auto& one_of(Container& things) {
        return things[static_cast<std::size_t>(dice(static_cast<int>(std::size(things))))];
    }
    void tell(const std::string& what) { story_.push_back(std::to_string(step_) + ": " + what); }

    void connect() {
        for (const char* name : consumers) connections_[name] = std::make_unique<Connection>(url_);
        connections_["drain"] = std::make_unique<Connection>(url_);
    }

    void step() {
        const int kind = dice(100);
        if (kind < 30) return write(one_of(writers_));
        GroupModel& group = one_of(groups_);
        const std::string consumer = one_of(consumers);
        if (kind < 55) {
            poll(group, consumer, 1 + dice(12));
        } else if (kind < 85) {
            settle(group, consumer);
        } else if (kind < 90) {
            lose_a_lease(group);
        } else if (kind < 94) {
            tell(consumer + " dies and comes back");
            connections_[consumer] = std::make_unique<Connection>(url_);
        } else if (kind < 97) {
            maintain();
        } else if (kind < 98) {
            seek(group);
        } else if (kind < 99) {
            tend_dead_letters(group);
        } else if (dice(10) == 0) {
            crash();
        }
    }

    void write(Writer& writer) {
        if (!writer.open) {
            writer.connection->exec("begin");
            writer.open = true;
            writer.wrote.clear();
        } else if (dice(3) == 0) {
            return end(writer, dice(4) != 0);
        }
        const bool undo = dice(8) == 0;
        if (undo) writer.connection->exec("savepoint s");
        const auto rows = writer.connection->query(
            "insert into events (event_type, partition_key, payload) select 'e', 'k' || $1, '{}' from "
            "generate_series(1, $2::int) "
            "returning id, partition_key",
            {dice(5), 1 + dice(4)});
        if (undo) {
            writer.connection->exec("rollback to s");
            return;
        }
        for (int row = 0; row < rows.rows(); ++row) {
            log_.wrote(rows.number<long>(row, 0), rows.text(row, 1), step_);
            writer.wrote.push_back(rows.number<long>(row, 0));
        }
    }

    void end(Writer& writer, bool keep) {
        writer.connection->exec(keep ? "commit" : "rollback");
        std::string ids;
        for (const long id : writer.wrote) {
            ids += " " + std::to_string(id);
            if (keep) log_.committed(id, step_);
        }
        tell((keep ? "committed" : "rolled back") + ids);
        writer.open = false;
    }

    std::vector<long> poll(GroupModel& group, const std::string& consumer, int batch) {
        const auto rows =
            connections_[consumer]->query("select id, lease_token from baton.poll_outbox($1, $2, $3, 3600)",
                                          {group.name(), consumer, batch});
        std::vector<long> ids;
        std::string text;
        for (int row = 0; row < rows.rows(); ++row) {
            ids.push_back(rows.number<long>(row, 0));
            text += " " + rows.text(row, 0);
        }
        tell(consumer + " polls " + group.name() + ":" + text +
             (ids.empty() ? " nothing" : " by " + rows.text(0, 1)));
        look_for_the_dead(group);
        group.polled();
        if (!ids.empty()) group.given(consumer, rows.text(0, 1), ids);
        return ids;
    }

    // Some lease that has been given out, of any age and life.
    const std::pair<const std::string, GroupModel::Lease>* some_lease(GroupModel& group,
                                                                      const std::string& consumer) {
        std::vector<const std::pair<const std::string, GroupModel::Lease>*> some, with_events;
        for (const auto& entry : group.leases())
            if (entry.second.consumer == consumer) {
                some.push_back(&entry);
                if (!entry.second.held.empty()) with_events.push_back(&entry);
            }
        if (!with_events.empty() && dice(5) != 0) return one_of(with_events);
        return some.empty() ? nullptr : one_of(some);
    }

    template <class Call>
    Answer answer_of(const Call& call) {
        try {
            return call() ? Answer::done : Answer::settled_before;
        } catch (const SqlError& error) {
            if (error.sqlstate() != "BT001" && error.sqlstate() != "BT002") throw;
            tell("  refused: " + std::string(error.what()));
            return Answer::refused;
        }
    }

    void commit(GroupModel& group, const std::string& consumer, const std::string& token, long id,
                bool with_token) {
        const std::string meant = with_token ? token : group.lease_of(consumer, id);
        tell(consumer + " commits " + std::to_string(id) + " in " + group.name() +
             (with_token ? " by " + token : " without token"));
        const Answer answer = answer_of([&] {
            return connections_[consumer]->value(
                       "select baton.commit_offset($1, $2, $3, $4)",
                       {group.name(), consumer, id, with_token ? std::optional(token) : std::nullopt}) == "t";
        });
        group.commit(meant, id, answer);
    }

    void settle(GroupModel& group, const std::string& consumer) {
        const auto* entry = some_lease(group, consumer);
        if (entry == nullptr) return;
        const std::string token = entry->first;
        const std::vector<long> held = entry->second.held;
        const long id =
            held.empty() ? 1 + dice(50) : held[static_cast<std::size_t>(dice(static_cast<int>(held.size())))];
        switch (dice(10)) {
            case 0:
            case 1:
            case 2:
                return commit(group, consumer, token, held.empty() ? id : held.back(), true);
            case 3:
                return commit(group, consumer, token, id, true);
            case 4:
                return commit(group, consumer, token, id, false);
            case 5:  // by a token that never was
                if (dice(2) == 0)
                    return commit(group, "drain", "00000000-0000-4000-8000-000000000000", id, true);
                return commit_some(group, consumer, token, held);
            case 6:
                return commit_some(group, consumer, token, held);
            case 7:
                return fail(group, consumer, token, id);
            case 8:
                return extend(group, consumer, token);
            default:
                tell(consumer + " releases " + token);
                connections_[consumer]->query("select baton.release_lease($1, $2, $3)",
                                              {group.name(), consumer, token});
                group.released(token);
        }
    }

    void commit_some(GroupModel& group, const std::string& consumer, const std::string& token,
                     const std::vector<long>& held) {
        std::vector<long long> ids;
        for (const long id : held)
            if (dice(2) == 0) ids.push_back(id);
        if (ids.empty()) return;
        tell(consumer + " commits exactly " + postgres::array_literal(ids) + " by " + token);
        const Answer answer = answer_of([&] {
            connections_[consumer]->query("select baton.commit_events($1, $2, $3, $4)",
                                          {group.name(), consumer, postgres::array_literal(ids), token});
            return true;
        });
        group.commit_only(token, {ids.begin(), ids.end()}, answer);
    }

    void fail(GroupModel& group, const std::string& consumer, const std::string& token, long id) {
        tell(consumer + " fails " + std::to_string(id) + " by " + token);
        std::vector<std::pair<long, std::string>> parked;
        const Answer answer = answer_of([&] {
            const auto rows = connections_[consumer]->query(
                "select id, state from baton.fail_events($1, $2, array[$3::bigint], 'no', false, $4)",
                {group.name(), consumer, id, token});
            for (int row = 0; row < rows.rows(); ++row) {
                parked.emplace_back(rows.number<long>(row, 0), rows.text(row, 1));
                tell("  parked " + rows.text(row, 0) + " as " + rows.text(row, 1));
            }
            return true;
        });
        group.failed(token, parked, answer);
    }

    void extend(GroupModel& group, const std::string& consumer, const std::string& token) {
        tell(consumer + " extends " + token);
        const Answer answer = answer_of([&] {
            connections_[consumer]->query("select baton.extend_lease($1, $2, 3600, $3)",
                                          {group.name(), consumer, token});
            return true;
        });
        group.extended(token, answer);
    }

    // Time passes for one lease.
    void run_out(GroupModel& group, const std::string& token) {
        tell("time is over for " + token);
        for (const char* table : {"pieces", "parked"})
            admin_->query(
                "update baton_internal." + std::string(table) +
                    " set leased_until = clock_timestamp() - interval '1 second' where lease_token = $1",
                {token});
        group.ran_out(token);
    }

    void lose_a_lease(GroupModel& group) {
        const auto* entry = some_lease(group, one_of(consumers));
        if (entry != nullptr && entry->second.life == Life::alive) run_out(group, entry->first);
    }

    void maintain() {
        tell("maintenance");
        maintained_ = true;
        admin_->exec("call baton.run_maintenance()");
    }

    void seek(GroupModel& group) {
        const bool to_end = dice(3) == 0;
        const auto ids = log_.committed_ids();
        const long place = ids.empty() || dice(2) == 0
                               ? 0
                               : ids[static_cast<std::size_t>(dice(static_cast<int>(ids.size())))];
        tell("seek " + group.name() + " to " + (to_end ? "the end" : std::to_string(place)));
        admin_->query("select baton.seek_offset($1, 'operator', $2)",
                      {group.name(), to_end ? std::nullopt : std::optional(place)});
        group.sought(place, to_end, maintained_);
        look_for_the_dead(group);
    }

    std::map<long, std::string> dead_letters(GroupModel& group) {
        const auto rows = admin_->query(
            "select event_offset, id from baton.dead_letters where group_name = $1", {group.name()});
        std::map<long, std::string> letters;
        for (int row = 0; row < rows.rows(); ++row) letters[rows.number<long>(row, 0)] = rows.text(row, 1);
        return letters;
    }

    void look_for_the_dead(GroupModel& group) {
        std::set<long> ids;
        for (const auto& [id, letter] : dead_letters(group)) ids.insert(id);
        group.dead(ids);
    }

    void tend_dead_letters(GroupModel& group) {
        look_for_the_dead(group);
        for (const auto& [id, letter] : dead_letters(group)) {
            if (dice(2) == 0) {
                tell("replay " + std::to_string(id));
                admin_->query("select baton.replay_dead_letters(array[$1::bigint])", {letter});
                group.replayed(id);
            } else {
                tell("discard " + std::to_string(id));
                admin_->query("select baton.discard_dead_letters(array[$1::bigint], 'test')", {letter});
                group.discarded(id);
            }
        }
    }

    void crash() {
        tell("the server crashes");
        cluster_.server().kill_hard();
        cluster_.server().start();
        admin_ = std::make_unique<Connection>(url_);
        for (auto& writer : writers_) writer = Writer{std::make_unique<Connection>(url_), false, {}};
        connect();
    }

    Cluster& cluster_;
    std::string url_;
    std::mt19937 random_;
    unsigned seed_;
    long step_ = 0;
    LogModel log_;
    std::vector<GroupModel> groups_;
    std::unique_ptr<Connection> admin_;
    std::array<Writer, 4> writers_;
    std::map<std::string, std::unique_ptr<Connection>> connections_;
    bool maintained_ = false;
    std::vector<std::string> story_;
};

class GroupModelTest : public testing::TestWithParam<Form> {};

}  // namespace

TEST_P(GroupModelTest, no_step_does_what_the_model_forbids_and_everything_committed_comes) {
    const int given = from_environment("BATON_MODEL_SEED", 0);
    const int asked = from_environment("BATON_MODEL_RUNS", 0);
    const int runs = given != 0 ? 1 : asked != 0 ? asked : 6;
    for (int run = 0; run < runs; ++run) {
        const unsigned seed = given != 0   ? static_cast<unsigned>(given)
                              : asked != 0 ? std::random_device{}()
                                           : static_cast<unsigned>(run) + 1;
        Story test(shared_cluster(GetParam()), seed);
        try {
            test.steps(from_environment("BATON_MODEL_STEPS", 600));
            test.drain();
        } catch (const std::exception& fault) {
            FAIL() << fault.what() << "\n" << test.story() << test.catalog();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, GroupModelTest, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
