// Events of tables that were there before baton: where each one goes, and who else reads what is done.

#include "adopted_relays.hpp"
#include "tables/adopted_reader.hpp"
#include "tables/adopted_source.hpp"

using namespace baton;
using namespace baton::test;
using namespace std::chrono_literals;

TEST(AdoptedEvents, routing_keys_with_commas_fan_out) {
    Table table(layout("ulid"));
    Receiver receiver;
    Relays relays(table);
    table.db.exec(
        "insert into outbox_events (id, topic, occurred_at, aggregate_id, aggregate_type, routing_key, "
        "payload) "
        "values (baton.ulid(), 'catalog.product.created', now(), 'p', 'Product', 'catalog.created, search', "
        "'{\"n\": 1}'), (baton.ulid(), 'catalog.product.deleted', now(), 'p', 'Product', null, '{\"n\": "
        "2}')");
    relays.configure("type = \"http\"\nallow_private = true\nurl = \"http://127.0.0.1:" +
                     std::to_string(receiver.webhook.port()) + "/{topic}\"\n");
    auto relay = relays.start("one");
    wait_until("both are done", [&] { return table.value(layout("ulid").done) == "2"; });
    std::multiset<std::string> paths;
    for (const auto& request : receiver.webhook.kept()) paths.insert(request.path);
    EXPECT_EQ(paths, (std::multiset<std::string>{"/catalog.created", "/search", "/catalog.product.deleted"}));
    EXPECT_EQ(relay.stop(), 0);
}

TEST(AdoptedConsumers, read_the_done_events_behind_their_own_offset) {
    Table table(layout("messages"));
    Receiver receiver;
    Relays relays(table);
    table.insert(1, 300);
    table.db.exec("update outbox_messages set processed_at = now() where (payload ->> 'n')::int <= 200");
    relays.configure(receiver.sink(), "consumer = \"mailer\"\nbatch = 20");
    EXPECT_EQ(relays.check().exit_code, 0);
    const std::string offset = "select coalesce(max(last_processed_id), 0) from consumer_offsets";
    auto first = relays.start("one");
    wait_until("some have arrived", [&] { return receiver.webhook.kept().size() >= 50; });
    receiver.webhook.hold();
    wait_until("some are on their way", [&] { return receiver.webhook.held() > 0; });
    first.signal(SIGKILL);
    first.wait(10s);
    receiver.webhook.release();
    std::atomic<bool> mended{false};
    receiver.webhook.answer_with([&](const WebhookRequest& request) -> WebhookAnswer {
        if (Receiver::number_of(request) == 150 && !mended) return {400, "not this one", {}};
        return {};
    });
    auto second = relays.start("two");
    relays.wait_for_log("two", "not this one");
    wait_until("the consumer stands in front of what is refused",
               [&] { return table.value(offset) == "149"; });
    mended = true;
    wait_until("all that is done has arrived", [&] { return table.value(offset) == "200"; });
    table.db.exec("update outbox_messages set processed_at = now()");
    wait_until("the rest too", [&] { return table.value(offset) == "300"; });
    EXPECT_EQ(second.stop(), 0);
    expect_all(receiver.numbers(), 300);
    expect_key_order(receiver.numbers());
    EXPECT_EQ(table.value("select count(*) from outbox_messages_dlq"), "0");
}

TEST(AdoptedConsumers, members_take_turns) {
    Table table(layout("messages"));
    table.insert(1, 10);
    table.db.exec("update outbox_messages set processed_at = now()");
    tables::ReaderOptions options;
    options.conninfo = table.url;
    options.table = table.name();
    options.consumer = "mailer";
    options.batch = 4;
    tables::Holder holder;
    const auto one = tables::AdoptedReader::take(options, holder);
    ASSERT_TRUE(one);
    EXPECT_FALSE(tables::AdoptedReader::take(options, holder)) << "the other has the offset";
    const auto batch = one->read(1000ms);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->events.size(), 4U);
    one->settle(batch, 3, {});
    one->tend(1ms);
    EXPECT_FALSE(tables::AdoptedReader::take(options, holder)) << "and keeps it until its batch is done";
    one->settle(batch, 4, {});
    one->tend(1ms);
    const auto other = tables::AdoptedReader::take(options, holder);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->read(1000ms)->events.front().source_id, "5");
}

TEST(AdoptedEvents, an_idempotency_key_goes_along) {
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection db(url);
    db.exec(
        "create table jobs (id int primary key, body jsonb, token text unique, at timestamptz);"
        "select baton.adopt_outbox('jobs', mapping => '{\"columns\": {\"id\": \"id\", \"payload\": "
        "\"body\", \"idempotency_key\": \"token\"}, \"done\": {\"as\": \"delete\"}}');"
        "insert into jobs values (1, '{}', 'payment-7'), (2, '{}', null)");
    tables::Holder holder;
    const auto source = tables::AdoptedSource::take({url, "jobs", "reader"}, holder);
    const auto batch = source->read(1000ms);
    ASSERT_EQ(batch->events.size(), 2U);
    EXPECT_EQ(batch->events[0].idempotency_key, "payment-7");
    EXPECT_EQ(batch->events[1].idempotency_key, std::nullopt);
}

TEST(AdoptedEvents, payloads_of_any_type_go_out_byte_by_byte) {
    const auto url = shared_cluster(Form::plain).fresh_database();
    Connection db(url);
    db.exec(
        "create table blobs (id int primary key, body bytea);"
        "create table texts (id int primary key, body text);"
        "select baton.adopt_outbox(t, mapping => '{\"columns\": {\"id\": \"id\", \"payload\": \"body\"}, "
        "\"done\": {\"as\": \"delete\"}}') from unnest('{blobs,texts}'::text[]) t;"
        "insert into blobs values (1, '\\x00ff0a22'), (2, ''), (3, null), (4, '\\x41');"
        "insert into texts values (1, '{\"a\":1 }'), (2, 'not \"json\"'), (3, ''), (4, null)");
    const auto read = [&url](const std::string& name) {
        tables::Holder holder;
        const auto source = tables::AdoptedSource::take({url, name, "reader"}, holder);
        std::vector<std::optional<std::string>> payloads;
        const auto batch = source->read(1000ms);
        for (const auto& event : batch->events)
            payloads.push_back(event.payload ? std::optional(std::string(*event.payload)) : std::nullopt);
        return payloads;
    };
    using Payloads = std::vector<std::optional<std::string>>;
    EXPECT_EQ(read("blobs"), (Payloads{std::string("\0\xff\n\"", 4), "", std::nullopt, "A"}));
    EXPECT_EQ(read("texts"), (Payloads{R"({"a":1 })", R"(not "json")", "", std::nullopt}));
}
