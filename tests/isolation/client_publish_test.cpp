// Publishing with libbaton: in the caller's transaction, by libpq or libpqxx, one, many, typed, in a
// pipeline.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "baton/baton.hpp"
#include "baton/json.hpp"
#include "baton/pqxx.hpp"
#include "support/cluster.hpp"

using namespace baton::test;
using baton::NewEvent;
using baton::Outbox;

namespace {

struct OrderPlaced {
    long order = 0;
    std::string note;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OrderPlaced, order, note)

class Publishing : public testing::TestWithParam<Form> {
  protected:
    Publishing() { admin.exec("select baton.create_outbox('orders')"); }

    std::string one(const std::string& sql) { return admin.value(sql); }

    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
    Connection db{url};
    Outbox outbox{"orders"};
};

}  // namespace

template <>
struct baton::Codec<OrderPlaced> : baton::JsonCodec<OrderPlaced> {
    static constexpr std::string_view event_type = "order.placed";
    static constexpr int schema_version = 3;
};

INSTANTIATE_TEST_SUITE_P(Forms, Publishing, testing::Values(Form::extension, Form::plain),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Publishing, the_event_lives_and_dies_with_the_callers_transaction) {
    {
        const baton::postgres::Transaction tx(db);
        outbox.publish(db.native(), {.type = "gone"});
    }
    EXPECT_EQ(one("select count(*) from orders"), "0");
    baton::postgres::Transaction tx(db);
    const auto published = outbox.publish(db.native(), {.type = "stays", .payload = R"({"n": 1})"});
    EXPECT_EQ(one("select count(*) from orders"), "0") << "published without a commit";
    EXPECT_TRUE(db.in_transaction());
    tx.commit();
    EXPECT_EQ(one("select id || ' ' || event_id || ' ' || event_type || ' ' || payload from orders"),
              std::to_string(published.id) + " " + published.event_id.str() + R"( stays {"n": 1})");
}

TEST_P(Publishing, without_a_transaction_it_is_refused) {
    EXPECT_THROW(outbox.publish(db.native(), {.type = "alone"}), baton::UsageError);
    EXPECT_EQ(one("select count(*) from orders"), "0");
}

TEST_P(Publishing, every_field_arrives) {
    const baton::EventId id("0190c6b4-0000-7000-8000-00000000002a");
    const baton::Timestamp at(std::chrono::microseconds(1'700'000'000'123'456));
    baton::postgres::Transaction tx(db);
    outbox.publish(db.native(), {.type = "t",
                                 .payload = "[1]",
                                 .schema_version = 2,
                                 .aggregate_type = "order",
                                 .aggregate_id = "7",
                                 .partition_key = "k",
                                 .topic = "here",
                                 .headers = {{"a", "x \"y\""}, {"b", "z"}},
                                 .tenant_id = "ten",
                                 .trace_id = "tr",
                                 .correlation_id = "co",
                                 .causation_id = "ca",
                                 .idempotency_key = "ik",
                                 .occurred_at = at,
                                 .available_at = at + std::chrono::hours(1),
                                 .id = id});
    tx.commit();
    admin.exec("set timezone = 'UTC'");
    EXPECT_EQ(one("select (to_jsonb(o) - 'xid' - 'id')::text from orders o"),
              one(R"(select '{"event_id": "0190c6b4-0000-7000-8000-00000000002a", "tenant_id": "ten",
                     "aggregate_type": "order", "aggregate_id": "7", "event_type": "t", "schema_version": 2,
                     "topic": "here", "partition_key": "k", "payload": [1], "headers": {"a": "x \"y\"", "b": "z"},
                     "trace_id": "tr", "correlation_id": "co", "causation_id": "ca", "idempotency_key": "ik",
                     "occurred_at": "2023-11-14T22:13:20.123456+00:00",
                     "available_at": "2023-11-14T23:13:20.123456+00:00"}'::jsonb::text)"));
}

TEST_P(Publishing, many_events_keep_their_order_and_get_their_ids) {
    std::vector<NewEvent> events;
    for (int n = 0; n < 9000; ++n)
        events.push_back({.type = "t",
                          .payload = std::to_string(n),
                          .aggregate_id = n % 2 == 0 ? std::optional<std::string>("even") : std::nullopt});
    baton::postgres::Transaction tx(db);
    const auto published = outbox.publish(db.native(), events);
    tx.commit();
    ASSERT_EQ(published.size(), events.size());
    const auto rows = admin.query("select id, payload, aggregate_id from orders order by id");
    ASSERT_EQ(rows.rows(), 9000);
    std::set<std::string> ids;
    for (int n = 0; n < rows.rows(); ++n) {
        ASSERT_EQ(rows.number(n, 0), published[static_cast<std::size_t>(n)].id);
        ASSERT_EQ(rows.number<int>(n, 1), n);
        ASSERT_EQ(rows.is_null(n, 2), n % 2 == 1);
        ids.insert(published[static_cast<std::size_t>(n)].event_id.str());
    }
    EXPECT_EQ(ids.size(), events.size());
}

TEST_P(Publishing, an_idempotency_key_publishes_once_and_names_the_first_one) {
    const NewEvent event{.type = "t", .idempotency_key = "once"};
    baton::postgres::Transaction first(db);
    const auto published = outbox.publish(db.native(), event);
    first.commit();
    EXPECT_FALSE(published.duplicate);
    baton::postgres::Transaction second(db);
    const std::vector<NewEvent> events{{.type = "before"}, event, {.type = "after"}};
    const auto again = outbox.publish(db.native(), events);
    second.commit();
    EXPECT_FALSE(again[0].duplicate);
    EXPECT_TRUE(again[1].duplicate);
    EXPECT_EQ(again[1].id, published.id);
    EXPECT_FALSE(again[2].duplicate);
    EXPECT_EQ(one("select string_agg(event_type, ' ' order by id) from orders"), "t before after");
}

TEST_P(Publishing, a_duplicate_names_the_first_one_of_its_own_tenant) {
    db.exec("set baton.tenant_id = 'ten'");
    const NewEvent of_nobody{.type = "t", .idempotency_key = "k"};
    const NewEvent of_tenant{.type = "t", .tenant_id = "ten", .idempotency_key = "k"};
    const baton::postgres::Transaction tx(db);
    const auto tenants = outbox.publish(db.native(), of_tenant);
    const auto nobodys = outbox.publish(db.native(), of_nobody);
    EXPECT_FALSE(nobodys.duplicate);
    EXPECT_EQ(outbox.publish(db.native(), of_nobody).id, nobodys.id);
    EXPECT_EQ(outbox.publish(db.native(), of_tenant).id, tenants.id);
    db.exec("select baton.create_outbox('apart', tenancy => true)");
    const auto by_session = Outbox("apart").publish(db.native(), of_nobody);
    EXPECT_EQ(Outbox("apart").publish(db.native(), of_nobody).id, by_session.id);
}

TEST_P(Publishing, a_typed_event_comes_back_as_what_it_was) {
    baton::postgres::Transaction tx(db);
    outbox.publish(db.native(), OrderPlaced{7, "süß \"x\"\n"}, {.aggregate_id = "7"});
    tx.commit();
    admin.exec("select baton.create_consumer_group('g', 'orders', 'earliest')");
    std::vector<OrderPlaced> got;
    baton::GroupConsumer consumer("g", {.conninfo = url},
                                  baton::Handlers().on<OrderPlaced>(
                                      [&](auto&, const OrderPlaced& order, const baton::Delivery& delivery) {
                                          EXPECT_EQ(delivery.schema_version, 3);
                                          EXPECT_EQ(delivery.aggregate_id, "7");
                                          got.push_back(order);
                                      }));
    EXPECT_EQ(consumer.drain(), 1U);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].order, 7);
    EXPECT_EQ(got[0].note, "süß \"x\"\n");
}

TEST_P(Publishing, bytes_and_texts_travel_unchanged) {
    admin.exec("select baton.create_outbox('blobs', payload_type => 'bytea')");
    admin.exec("select baton.create_outbox('texts', payload_type => 'text')");
    admin.exec("select baton.create_consumer_group('b', 'blobs', 'earliest')");
    admin.exec("select baton.create_consumer_group('t', 'texts', 'earliest')");
    std::string bytes;
    for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
    const std::string text = "no \"json\" \\ at all";
    baton::postgres::Transaction tx(db);
    Outbox("blobs").publish(db.native(), {.type = "t", .payload = bytes, .binary = true});
    Outbox("texts").publish(db.native(), {.type = "t", .payload = text});
    tx.commit();
    std::vector<std::string> got;
    const auto take = [&](auto&, const baton::Delivery& event) { got.push_back(event.payload); };
    baton::GroupConsumer("b", {.conninfo = url}, take).drain();
    baton::GroupConsumer("t", {.conninfo = url}, take).drain();
    EXPECT_EQ(got, (std::vector{bytes, text}));
}

TEST_P(Publishing, a_zero_byte_in_a_text_is_refused_and_not_cut) {
    const baton::postgres::Transaction tx(db);
    using namespace std::string_literals;
    EXPECT_THROW(outbox.publish(db.native(), {.type = "t", .payload = "\"a\0b\""s}), baton::UsageError);
    EXPECT_THROW(outbox.publish(db.native(), {.type = ""}), baton::UsageError);
}

TEST_P(Publishing, the_servers_words_come_through) {
    const baton::postgres::Transaction tx(db);
    try {
        Outbox("nowhere").publish(db.native(), {.type = "t"});
        FAIL() << "there is no such outbox";
    } catch (const baton::SqlError& error) {
        EXPECT_EQ(error.sqlstate(), "42P01");
    }
}

TEST_P(Publishing, names_are_read_as_sql_reads_them) {
    admin.exec(R"(create schema "My Shop"; select baton.create_outbox('"odd ""name"""', 'My Shop'))");
    baton::postgres::Transaction tx(db);
    Outbox(R"("My Shop"."odd ""name""")").publish(db.native(), {.type = "t"});
    Outbox("Public.ORDERS").publish(db.native(), {.type = "t"});
    tx.commit();
    EXPECT_EQ(one(R"(select count(*) from "My Shop"."odd ""name""")"), "1");
    EXPECT_EQ(one("select count(*) from orders"), "1");
    for (const char* wrong :
         {"", "a b", "1a", "a.", ".a", "a.b.c", "\"a", "\"\"", "a;drop table orders", "a\"b\"", "a--"})
        EXPECT_THROW(Outbox{wrong}, baton::UsageError) << wrong;
}

TEST_P(Publishing, as_a_part_of_the_callers_statement_it_costs_no_round_trip) {
    admin.exec("create table bought (id int, total int)");
    const NewEvent event{.type = "order.placed", .payload = R"({"id": 7})"};
    const auto statement = outbox.statement({&event, 1}, 3);
    baton::postgres::Params params{"7", "42"};
    for (const auto& parameter : statement.parameters) params.emplace_back(parameter);
    const auto id =
        db.value("with bought as (insert into bought values ($1::int, $2::int)) " + statement.sql, params);
    EXPECT_EQ(one("select event_id from orders where id = " + id), statement.event_ids.front().str());
    EXPECT_EQ(one("select total from bought"), "42");
}

TEST_P(Publishing, in_a_pipeline_it_waits_for_nothing) {
    PGconn* native = db.native();
    ASSERT_EQ(PQenterPipelineMode(native), 1);
    ASSERT_EQ(PQsendQueryParams(native, "begin", 0, nullptr, nullptr, nullptr, nullptr, 0), 1);
    const auto first = outbox.enqueue(native, {.type = "one"});
    outbox.enqueue(native, {.type = "two"});
    ASSERT_EQ(PQsendQueryParams(native, "commit", 0, nullptr, nullptr, nullptr, nullptr, 0), 1);
    ASSERT_EQ(PQpipelineSync(native), 1);
    std::vector<ExecStatusType> answers;
    for (;;) {
        PGresult* result = PQgetResult(native);
        if (result == nullptr) continue;
        answers.push_back(PQresultStatus(result));
        PQclear(result);
        if (answers.back() == PGRES_PIPELINE_SYNC) break;
    }
    EXPECT_EQ(answers, (std::vector{PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_TUPLES_OK, PGRES_COMMAND_OK,
                                    PGRES_PIPELINE_SYNC}));
    EXPECT_EQ(one("select string_agg(event_type, ' ' order by id) from orders"), "one two");
    EXPECT_EQ(one("select event_id from orders order by id limit 1"), first.str());
    EXPECT_THROW(outbox.publish(native, {.type = "three"}), baton::UsageError);
    PQexitPipelineMode(native);
    EXPECT_THROW(outbox.enqueue(native, {.type = "three"}), baton::UsageError);
}

TEST_P(Publishing, libpqxx_publishes_in_its_own_transaction) {
    pqxx::connection connection(url);
    {
        pqxx::work tx(connection);
        baton::publish(tx, outbox, {.type = "gone"});
    }
    pqxx::work tx(connection);
    const auto published = baton::publish(tx, outbox, OrderPlaced{1, "x"}, {.idempotency_key = "k"});
    const std::vector<NewEvent> events(1500, NewEvent{.type = "t"});
    const auto many = baton::publish(tx, outbox, events);
    EXPECT_TRUE(baton::publish(tx, outbox, OrderPlaced{1, "x"}, {.idempotency_key = "k"}).duplicate);
    tx.commit();
    EXPECT_EQ(many.size(), 1500U);
    EXPECT_EQ(one("select count(*) from orders"), "1501");
    EXPECT_EQ(one("select payload ->> 'note' from orders where id = " + std::to_string(published.id)), "x");
    EXPECT_EQ(one("select event_id from orders where id = " + std::to_string(many.back().id)),
              many.back().event_id.str());
}

TEST_P(Publishing, a_producer_needs_no_more_than_the_producers_role) {
    admin.exec(
        "create role shop_writer; grant baton_producer to shop_writer; grant shop_writer to current_user");
    db.exec("begin; set local role shop_writer");
    const std::vector<NewEvent> events{{.type = "a"}, {.type = "b", .idempotency_key = "k"}};
    EXPECT_EQ(outbox.publish(db.native(), events).size(), 2U);
    EXPECT_TRUE(outbox.publish(db.native(), {.type = "b", .idempotency_key = "k"}).duplicate);
    db.exec("rollback");
    db.exec("drop role shop_writer");
}

TEST(EventIds, two_processes_after_a_fork_make_different_ones) {
    const auto before = baton::EventId::make();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    const std::string mine = baton::EventId::make().str();
    if (child == 0) {
        [[maybe_unused]] const auto written = ::write(ends[1], mine.data(), mine.size());
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    std::string theirs(36, ' ');
    ASSERT_EQ(::read(ends[0], theirs.data(), theirs.size()), 36);
    EXPECT_NE(mine, theirs);
    EXPECT_LT(before.str().substr(0, 8), mine.substr(0, 8) + "~") << "they sort by time";
    EXPECT_EQ(mine[14], '7');
}
