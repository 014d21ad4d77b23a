#pragma once
// A group or an inbox with things to be handled, and workers that handle them.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "baton/baton.hpp"
#include "support/cluster.hpp"

namespace baton::test {

enum class Kind { group, inbox, ordered_inbox };

struct Scene {
    Form form;
    Kind kind;
};

// The same tests for groups and inboxes: things are n = 1, 2, ... with keys a, b.
class Consuming : public testing::TestWithParam<Scene> {
  protected:
    void SetUp() override {
        admin.exec("create table effects (place bigserial primary key, n int, by text)");
        if (is_group()) {
            admin.exec("select baton.create_outbox('source')");
            admin.exec(
                "select baton.create_consumer_group('work', 'source', 'earliest', max_attempts => 3, "
                "retry_base => '0', retry_limit => '0')");
        } else {
            admin.exec("select baton.create_inbox('work', max_retries => 3)");
            admin.exec("select baton.alter_inbox('work', backoff_base => '0', backoff_cap => '0')");
            if (ordered())
                admin.exec("select baton.enable_inbox_ordering('work', sequence_num_col => 'sequence_num')");
        }
    }

    bool is_group() const { return GetParam().kind == Kind::group; }
    bool ordered() const { return GetParam().kind != Kind::inbox; }

    // Bring in n, with a key of its own unless one is given.
    void bring(int n, const std::string& key = {}, int sequence = 1) {
        const std::string k = key.empty() ? "k" + std::to_string(n) : key;
        if (is_group())
            admin.query(
                "select baton.publish('source', 'thing', jsonb_build_object('n', $1::int), aggregate_id => "
                "$2)",
                {n, k});
        else
            admin.query(
                "select baton.receive('work', $1, 'thing', jsonb_build_object('n', $2::int), aggregate_id => "
                "$3, sequence_num => $4)",
                {"m" + std::to_string(n), n, k, sequence});
    }
    void bring_many(int count) {
        for (int n = 1; n <= count; ++n) bring(n);
    }

    WorkOptions options() {
        return {.conninfo = url, .on_incident = [this](const Incident& incident) {
                    const std::lock_guard lock(guard);
                    incidents.push_back(incident.kind);
                    words.push_back(incident.what);
                }};
    }

    std::unique_ptr<baton::Worker> worker(baton::Handler handler) {
        return worker(std::move(handler), options());
    }
    std::unique_ptr<baton::Worker> worker(baton::Handler handler, WorkOptions with) {
        if (is_group())
            return std::make_unique<baton::GroupConsumer>("work", std::move(with), std::move(handler));
        return std::make_unique<baton::InboxWorker>("work", std::move(with), std::move(handler));
    }

    static int number_of(const Delivery& delivery) {
        return std::stoi(delivery.payload.substr(delivery.payload.find(':') + 1));
    }
    static void take_effect(baton::Transaction& tx, const Delivery& delivery, const std::string& by = "one") {
        tx.query("insert into effects (n, by) values ($1, $2)", {number_of(delivery), by});
    }

    std::string effects() {
        return admin.value("select coalesce(string_agg(n::text, ' ' order by n), '') from effects");
    }
    std::string effects_in_order() {
        return admin.value("select coalesce(string_agg(n::text, ' ' order by place), '') from effects");
    }
    int dead() {
        return std::stoi(admin.value(is_group()
                                         ? "select count(*) from baton_internal.parked where state = 'dead'"
                                         : "select count(*) from dlq_work"));
    }
    // Nothing is waiting, parked or leased.
    bool settled() {
        return admin.value(
                   is_group()
                       ? "select not exists (select from baton_internal.pieces) and not exists (select from "
                         "baton_internal.parked where state <> 'dead') and "
                         "not exists (select from baton.group_lag where lag_rows > 0)"
                       : "select not exists (select from pending_work)") == "t";
    }
    // Let every lease run out now.
    void expire_leases() {
        Connection(url).exec(is_group()
                                 ? "update baton_internal.pieces set leased_until = now() - interval '1 s'"
                                 : "update work set leased_until = now() - interval '1 s' where "
                                   "leased_until is not null");
        if (GetParam().kind == Kind::ordered_inbox)
            Connection(url).exec(
                "update baton_internal.inbox_sequences set leased_until = now() - interval '1 s' "
                "where leased_until is not null");
    }
    // Handle it; number n takes the connection down.
    static void break_at(int n, baton::Transaction& tx, const Delivery& delivery) {
        take_effect(tx, delivery);
        if (number_of(delivery) == n) tx.query("select pg_terminate_backend(pg_backend_pid())");
    }
    void run_until_dead(baton::Worker& work) {
        std::jthread running([&](const std::stop_token& stop) { work.run(stop); });
        wait_until("one is dead and the others are handled", [&] { return dead() == 1 && settled(); });
    }
    int count(Incident::Kind kind) {
        const std::lock_guard lock(guard);
        return static_cast<int>(std::count(incidents.begin(), incidents.end(), kind));
    }

    std::string url = shared_cluster(GetParam().form).fresh_database();
    Connection admin{url};
    std::mutex guard;
    std::vector<Incident::Kind> incidents;
    std::vector<std::string> words;
};

}  // namespace baton::test
