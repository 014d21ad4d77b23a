// A relay's reader is woken for every event, with the extension's bell and with notifications. It looks by
// itself only once in an hour here, so a wake-up that is lost leaves its event behind.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "support/cluster.hpp"
#include "tables/adopted_table.hpp"
#include "tables/outbox_source.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

namespace {

class WakeUp : public testing::TestWithParam<Form> {
  protected:
    WakeUp() {
        admin.exec("select baton.set_setting('notify_despite_two_phase', 'on')");
        admin.exec("select baton.create_outbox('events')");
        admin.exec("select baton_internal.prepare_group('reading', 'events')");
    }

    std::unique_ptr<tables::OutboxSource> take_source() {
        tables::OutboxOptions options;
        options.conninfo = url;
        options.group = "reading";
        options.owner = "reader";
        options.lease = 5min;
        options.safety_look = 1h;
        tables::Holder holder;
        return tables::OutboxSource::take(options, holder);
    }

    // One writer: events one by one, at moments that the reader may meet in any state.
    void write(int events, unsigned seed) {
        Connection db(url);
        std::mt19937 random(seed);
        const auto pause = [&random](int most) {
            std::this_thread::sleep_for(
                std::chrono::microseconds(std::uniform_int_distribution(0, most)(random)));
        };
        for (int i = 0; i < events; ++i) {
            const int kind = std::uniform_int_distribution(0, 19)(random);
            db.exec(kind == 0   ? "begin isolation level repeatable read; select 1 from events limit 1"
                    : kind == 1 ? "begin; select pg_current_xact_id()"
                                : "begin");
            if (kind < 3) pause(20'000);
            db.exec("insert into events (event_type, payload) values ('x', '{}')");
            if (kind < 6) pause(5000);
            db.exec(kind == 5 ? "rollback" : "commit");
            pause(kind == 7 ? 90'000 : kind < 12 ? 5000 : 500);
            if (kind != 5) ++committed;
        }
    }

    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
    std::atomic<int> committed{0};
};

// Before a relay reads an outbox it asks whether it is an adopted one.
TEST_P(WakeUp, an_adopted_outbox_in_a_schema_of_others_keeps_no_relay_from_its_own) {
    admin.exec(
        "create schema hidden; create table hidden.mails (id bigserial primary key, body jsonb, sent_at "
        "timestamptz); select baton.adopt_outbox('hidden.mails', mapping => '{\"columns\": {\"id\": \"id\", "
        "\"payload\": \"body\", \"processed_at\": \"sent_at\"}}')");
    EXPECT_TRUE(tables::is_adopted(admin, "hidden.mails"));
    Connection relay(url);
    relay.exec("grant baton_relay to current_user; set role baton_relay");
    EXPECT_FALSE(tables::is_adopted(relay, "events"));
}

INSTANTIATE_TEST_SUITE_P(Forms, WakeUp, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return form.param == Form::plain ? "plain" : "extension"; });

TEST_P(WakeUp, every_event_wakes_the_reader) {
    const auto source = take_source();
    ASSERT_TRUE(source);
    std::atomic<int> seen{0};
    std::jthread reader([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            const auto batch = source->read(100ms);
            if (!batch) continue;
            source->settle(batch, batch->events.size(), {});
            seen += static_cast<int>(batch->events.size());
        }
    });
    // The last event of a round has no later one that would wake the reader in its place.
    for (unsigned round = 0; round < 80; ++round) {
        std::vector<std::jthread> writers;
        for (unsigned i = 0; i < 3; ++i)
            writers.emplace_back([=, this] { write(round % 4 == 0 ? 20 : 2, 3 * round + i); });
        for (auto& writer : writers) writer.join();
        wait_until("every event is read", [&] { return seen == committed; });
    }
    reader.request_stop();
    reader.join();
    source->close();
}

}  // namespace
