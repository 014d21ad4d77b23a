// The programs in examples/ do what they say, started and stopped as a user would.

#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/file.hpp"
#include "brokers/http/webhook_signature.hpp"
#include "brokers/nats/tests/server.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

const fs::path examples = fs::path(BATON_SOURCE) / "examples";
constexpr const char* secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

class Examples : public testing::TestWithParam<Form> {
  protected:
    Ran run_psql(const fs::path& file) const {
        return run_separately(
            {.argv = {"psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", file.string(), url}});
    }
    // Start a program of examples/cpp or a Python script; its words go to NAME.out and NAME.log.
    Process start(const fs::path& program, std::vector<std::string> words,
                  const Environment& environment = {}) {
        const bool script = program.extension() == ".py";
        std::vector<std::string> argv;
        if (script) argv.emplace_back("/usr/bin/python3");
        argv.push_back((script ? examples / program : build_folder() / "bin" / program).string());
        argv.insert(argv.end(), words.begin(), words.end());
        const std::string name = program.stem().string() + std::to_string(++started);
        return Process({.argv = argv,
                        .output = folder / (name + ".out"),
                        .environment = environment,
                        .errors = folder / (name + ".log"),
                        .dies_with_us = true});
    }
    std::string output(const std::string& name) const { return read_text(folder / (name + ".out")); }
    void wait_for(const std::string& sql, const std::string& value) {
        wait_until(sql + " gives " + value, [&] { return admin.value(sql) == value; });
    }
    // Workers listen to signals before they connect, so from then on they can be stopped.
    void wait_for_workers(int count) {
        wait_for("select count(*) >= " + std::to_string(count) +
                     " from pg_stat_activity where datname = current_database() and backend_type = 'client "
                     "backend' and pid <> pg_backend_pid()",
                 "t");
    }
    void make_shop() {
        admin.exec(
            "create table orders (id bigint primary key, total bigint, paid boolean not null default false);"
            "select baton.create_outbox('order_events'); select baton.create_inbox('payments');"
            "select baton.alter_inbox('payments', backoff_base => '0', backoff_cap => '0')");
    }
    void pay(int order, int amount, const std::string& id) {
        admin.query(
            "select baton.receive('payments', $1, 'payment.received', jsonb_build_object('order', $2::int, "
            "'amount', "
            "$3::int))",
            {id, order, amount});
    }

    TemporaryFolder folder;
    int started = 0;
    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Examples, testing::Values(Form::extension, Form::plain),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Examples, the_sql_ones_run_and_show_what_they_say) {
    const auto outbox = run_psql(examples / "sql/outbox.sql");
    EXPECT_EQ(outbox.exit_code, 0) << outbox.errors;
    EXPECT_NE(outbox.output.find("1|shipment.ready|{\"shipment\": 1}\n2|shipment.ready|{\"shipment\": 2}"),
              std::string::npos)
        << outbox.output;
    EXPECT_NE(outbox.output.find("2|retry"), std::string::npos) << outbox.output;
    EXPECT_NE(outbox.output.find("\n4\n"), std::string::npos) << outbox.output;
    const auto inbox = run_psql(examples / "sql/inbox.sql");
    EXPECT_EQ(inbox.exit_code, 0) << inbox.errors;
    EXPECT_NE(inbox.output.find("new\nduplicate\nnew"), std::string::npos) << inbox.output;
    EXPECT_NE(inbox.output.find("d-2|no pieces in it"), std::string::npos) << inbox.output;
    EXPECT_NE(inbox.output.find("lamp|15"), std::string::npos) << inbox.output;
}

TEST_P(Examples, the_cpp_ones_publish_consume_and_answer) {
    make_shop();
    admin.exec("create table invoices (order_id bigint primary key, total bigint)");
    admin.exec("select baton.create_consumer_group('billing', 'order_events', 'earliest')");
    auto consumer = start("group_consumer", {url});
    auto worker = start("inbox_worker", {url});
    for (int order = 1; order <= 5; ++order)
        EXPECT_EQ(start("publisher", {url, std::to_string(order), "10"}).wait(std::chrono::seconds(60)), 0);
    EXPECT_EQ(start("publisher", {url, "5", "10"}).wait(std::chrono::seconds(60)), 1) << "the order exists";
    EXPECT_EQ(start("publisher", {url, "6", "-1"}).wait(std::chrono::seconds(60)), 0);
    wait_for("select count(*) from invoices", "5");
    wait_for("select string_agg(error, ' ') from baton_internal.parked where state = 'dead'",
             "an order cannot cost less than nothing");
    for (int order = 1; order <= 3; ++order) pay(order, 10, "p" + std::to_string(order));
    pay(2, 10, "p2");
    pay(4, 1, "too-little");
    wait_for("select count(*) from order_events where event_type = 'order.paid'", "3");
    EXPECT_EQ(admin.value("select string_agg(id::text, ' ' order by id) from orders where paid"), "1 2 3");
    EXPECT_EQ(consumer.stop(), 0);
    EXPECT_EQ(worker.stop(), 0);
    auto waiting = start("group_consumer", {url + " dbname=nowhere"});
    const auto log = folder / ("group_consumer" + std::to_string(started) + ".log");
    wait_until("it says that its server is not there",
               [&] { return read_text(log).find("nowhere") != std::string::npos; });
    EXPECT_EQ(waiting.stop(), 0) << "it waits for its server, and may be stopped meanwhile";
}

TEST_P(Examples, two_python_relays_share_a_group_and_deliver_everything) {
    admin.exec("select baton.create_outbox('events')");
    admin.exec("select baton.create_consumer_group('out', 'events', 'earliest')");
    httplib::Server receiver;
    std::mutex guard;
    std::vector<int> got;
    receiver.Post("/events", [&](const httplib::Request& request, httplib::Response& response) {
        const auto event = nlohmann::json::parse(request.body);
        const int n = event.at("payload").at("n");
        EXPECT_EQ(request.get_header_value("webhook-id"), event.at("id").get<std::string>());
        const std::lock_guard lock(guard);
        if (n == 7) response.status = 422;
        if (n != 7) got.push_back(n);
    });
    const int port = receiver.bind_to_any_port("127.0.0.1");
    std::thread serving([&] { receiver.listen_after_bind(); });
    const std::string target = "http://127.0.0.1:" + std::to_string(port) + "/events";
    std::vector<Process> relays;
    for (const char* name : {"one", "two"})
        relays.push_back(start("relay/outbox_relay.py",
                               {"--db", url, "--group", "out", "--consumer", name, "--url", target}));
    for (int n = 1; n <= 60; ++n)
        admin.query(
            "select baton.publish('events', 't', jsonb_build_object('n', $1::int), aggregate_id => $2)",
            {n, "k" + std::to_string(n % 6)});
    wait_until("all but the rejected one came", [&] {
        const std::lock_guard lock(guard);
        return std::set<int>(got.begin(), got.end()).size() == 59;
    });
    wait_for("select string_agg(id::text || ' ' || state, ', ') from baton_internal.parked", "7 dead");
    for (auto& relay : relays) EXPECT_EQ(relay.stop(), 0);
    receiver.stop();
    serving.join();
    std::map<int, int> last;
    for (const int n : got) EXPECT_LT(std::exchange(last[n % 6], n), n) << "a key is out of order";
}

TEST_P(Examples, the_python_processor_has_each_effect_once) {
    make_shop();
    auto one = start("inbox/inbox_processor.py", {"--db", url, "--inbox", "payments"});
    auto two = start("inbox/inbox_processor.py", {"--db", url, "--inbox", "payments"});
    wait_for_workers(2);
    admin.exec("insert into orders select n, 10 from generate_series(1, 30) n");
    for (int order = 1; order <= 30; ++order)
        for (int again = 0; again < 2; ++again) pay(order, 10, "p" + std::to_string(order));
    admin.exec("select baton.receive('payments', 'odd', 'gossip', '{}')");
    wait_for("select count(*) from orders where paid", "30");
    wait_for("select string_agg(event_id || ': ' || error, ', ') from dlq_payments",
             "odd: what is a gossip?");
    EXPECT_EQ(one.stop(), 0);
    EXPECT_EQ(two.stop(), 0);
}

TEST_P(Examples, the_ordered_python_processor_applies_movements_in_sequence) {
    admin.exec(
        "create table accounts (id text primary key, balance bigint not null default 0, last_movement bigint "
        "not null "
        "default 0); select baton.create_inbox('movements'); select "
        "baton.enable_inbox_ordering('movements', sequence_num_col => 'sequence_num')");
    std::vector<Process> workers;
    for (int n = 0; n < 2; ++n) workers.push_back(start("inbox/inbox_processor_ordered.py", {"--db", url}));
    wait_for_workers(2);
    // Backwards: first +10 then -10, again and again; any other order would fall below nothing.
    for (int n = 20; n >= 1; --n)
        admin.query(
            "select baton.receive('movements', a || '-' || $1::int, 'moved', jsonb_build_object('amount', "
            "$2::int), "
            "aggregate_id => a, sequence_num => $1::int) from unnest('{x,y,z}'::text[]) a",
            {n, n % 2 == 1 ? 10 : -10});
    wait_for("select count(*) from accounts where last_movement = 20 and balance = 0", "3");
    EXPECT_EQ(admin.value("select count(*) from movements where error is not null"), "0");
    for (auto& worker : workers) EXPECT_EQ(worker.stop(), 0);
}

TEST_P(Examples, the_nats_writer_acknowledges_what_the_inbox_has_and_nothing_else) {
    const std::string client = (fs::path(BATON_SOURCE) / "tests/e2e/nats_client.py").string();
    const auto fetched = run_separately({.argv = {"/usr/bin/python3", client, "fetch"}});
    if (fetched.exit_code == 77) GTEST_SKIP() << "nats-py could not be fetched: " << fetched.errors;
    const Environment with_nats{{"PYTHONPATH", fetched.last_line()}};
    NatsServer server;
    server.start();
    const auto nats = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"/usr/bin/python3", client, server.url(), "PAYMENTS"});
        const auto ran = run_separately({.argv = words, .environment = with_nats});
        EXPECT_EQ(ran.exit_code, 0) << ran.errors;
        return ran.last_line();
    };
    const auto writer = [&](const std::string& durable) {
        return start("inbox/inbox_writer_nats.py",
                     {"--db", url, "--url", server.url(), "--stream", "PAYMENTS", "--durable", durable},
                     with_nats);
    };
    admin.exec("select baton.create_inbox('payments'), baton.set_setting('inbox_enabled', 'off')");
    nats({"make"});
    nats({"payments.made", "m1", R"({"amount": 1})"});
    nats({"payments.made", "no json"});
    nats({"payments.made", "m3", R"({"a": "\u0000"})"});
    auto one = writer("one");
    wait_until("the inbox refuses them", [&] {
        return read_text(folder / "inbox_writer_nats1.log").find("inboxes are disabled") != std::string::npos;
    });
    EXPECT_EQ(nats({"unacknowledged", "one"}), "3") << "nothing is acknowledged that is not in the inbox";
    admin.exec("select baton.set_setting('inbox_enabled', 'on')");
    wait_until("they are acknowledged", [&] { return nats({"unacknowledged", "one"}) == "0"; });
    EXPECT_EQ(admin.value("select string_agg(event_id, ' ' order by received_at) from payments"),
              "m1 nats:PAYMENTS/2 m3");
    EXPECT_EQ(
        admin.value(
            "select concat_ws(' ', event_type, source, payload ->> 'amount', headers ->> 'correlation-id') "
            "from payments where event_id = 'm1'"),
        "payments.made payments.made 1 c");
    EXPECT_EQ(
        admin.value(
            "select convert_from(payload_raw, 'UTF8') from dlq_payments where event_id = 'nats:PAYMENTS/2'"),
        "no json");
    EXPECT_EQ(admin.value("select count(*) from dlq_payments"), "2");
    admin.exec(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and "
        "backend_type = "
        "'client backend' and pid <> pg_backend_pid()");
    nats({"payments.made", "m4", "{}"});
    wait_for("select count(*) from payments", "4");
    auto two = writer("two");  // a consumer that has acknowledged nothing gets all of it again
    wait_until("all came again", [&] { return nats({"unacknowledged", "two"}) == "0"; });
    EXPECT_EQ(admin.value("select count(*) from payments"), "4");
    EXPECT_EQ(one.stop(), 0);
    EXPECT_EQ(two.stop(), 0);
}

TEST_P(Examples, the_webhook_receiver_takes_what_is_signed_once) {
    make_shop();
    auto receiver =
        start("inbox/webhook_receiver.py", {"--db", url, "--port", "0"}, {{"WEBHOOK_SECRET", secret}});
    const std::string said = "listening on port ";
    wait_until("it listens", [&] { return output("webhook_receiver1").ends_with("\n"); });
    const int port = std::stoi(output("webhook_receiver1").substr(said.size()));
    ::signal(SIGPIPE, SIG_IGN);  // it hangs up on a body that is too large
    httplib::Client client("127.0.0.1", port);
    const brokers::WebhookSigner signer({secret});
    const auto post = [&](const std::string& id, const std::string& body, const std::string& signed_body) {
        const std::string now = std::to_string(std::time(nullptr));
        const auto answer =
            client.Post("/",
                        {{"webhook-id", id},
                         {"webhook-timestamp", now},
                         {"webhook-signature", "v1,bm9uc2Vuc2U= " + signer.sign(id, now, signed_body)}},
                        body, "application/json");
        return answer ? std::to_string(answer->status) + " " + answer->body : "no answer";
    };
    const std::string body = R"({"type": "payment.received", "order": 1})";
    EXPECT_EQ(post("m1", body, body), "200 new\n");
    EXPECT_EQ(admin.value("select event_type || ' ' || (payload ->> 'order') from payments"),
              "payment.received 1");
    EXPECT_EQ(post("m1", body, body), "200 duplicate\n");
    EXPECT_EQ(post("m2", body, "something else").substr(0, 3), "401");
    EXPECT_EQ(client.Post("/", body, "application/json")->status, 401);
    EXPECT_EQ(post("m3", "no json", "no json"), "200 new\n");
    EXPECT_EQ(admin.value("select convert_from(payload_raw, 'UTF8') from payments where event_id = 'm3'"),
              "no json");
    EXPECT_EQ(admin.value("select count(*) from dlq_payments"), "1");
    const std::string nul = R"({"a": "\u0000"})";  // JSON that the server cannot hold
    EXPECT_EQ(post("m4", nul, nul), "200 new\n");
    EXPECT_EQ(admin.value("select count(*) from dlq_payments"), "2");
    const std::string large(2 << 20, ' ');
    EXPECT_NE(post("m5", large, large).substr(0, 3), "200");  // 413, or no answer: it does not read so much
    EXPECT_EQ(admin.value("select count(*) from payments"), "3");
    admin.exec("drop table payments cascade");
    EXPECT_EQ(post("m6", body, body).substr(0, 3), "503") << "not in the inbox, so no 2xx";
    EXPECT_EQ(receiver.stop(), 0);
}
