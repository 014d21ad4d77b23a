// Publishing in a transaction and handling from an inbox, in each language with its usual driver: the
// programs that the pages in docs/languages show.

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/jars.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

const fs::path examples = fs::path(BATON_SOURCE) / "examples";

// How the programs of a language are started; the server's address and the program's own words come behind.
struct Language {
    const char* name;
    std::vector<std::string> (*publish)(const fs::path& folder);
    std::vector<std::string> (*handle)(const fs::path& folder);
    bool jdbc = false;
    int after_sigterm = 0;  // the exit code
};

void PrintTo(const Language& language, std::ostream* out) {
    *out << language.name;
}

std::vector<std::string> python(const char* file) {
    return {"/usr/bin/python3", (examples / "python" / file).string()};
}

std::vector<std::string> node(const char* file) {
    return {"node", (examples / "node" / file).string()};
}

// Build the Go programs into a folder; from Go's own caches, when they were built before.
std::vector<std::string> go(const fs::path& folder, const char* program) {
    const auto built =
        run_separately({.argv = {"go", "build", "-o", folder.string(), "./" + std::string(program)},
                        .working_directory = examples / "go"});
    if (built.exit_code != 0) throw Unavailable("go build: " + built.errors);
    return {(folder / program).string()};
}

std::vector<std::string> java(const char* file) {
    const auto driver = fetch_jars("postgresql-jdbc-42.7.7", {"org.postgresql:postgresql:42.7.7"});
    return {"java", "-XX:TieredStopAtLevel=1", "-cp", driver.string() + "/*",
            (examples / "java" / file).string()};
}

const Language languages[] = {
    {"python", [](const fs::path&) { return python("publish.py"); },
     [](const fs::path&) { return python("handle.py"); }},
    {"node", [](const fs::path&) { return node("publish.js"); },
     [](const fs::path&) { return node("handle.js"); }},
    {"go", [](const fs::path& folder) { return go(folder, "publish"); },
     [](const fs::path& folder) { return go(folder, "handle"); }},
    {"java", [](const fs::path&) { return java("Publish.java"); },
     [](const fs::path&) { return java("Handle.java"); }, true,
     143},  // a Java program that ends in good order after SIGTERM says so
};

class Languages : public testing::TestWithParam<std::tuple<Form, Language>> {
  protected:
    const Language& language() const { return std::get<1>(GetParam()); }

    // The database's address over TCP, in the form that the drivers share, or in JDBC's.
    std::string address() {
        auto& cluster = shared_cluster(std::get<0>(GetParam()));
        const std::string words = cluster.tcp_url(url, cluster.server().port());
        const auto word = [&words](const std::string& name) {
            const auto begin = words.find(name + "=") + name.size() + 1;
            return words.substr(begin, words.find(' ', begin) - begin);
        };
        const std::string place = "postgresql://127.0.0.1:" + word("port") + "/" + word("dbname");
        const std::string login = "?user=" + word("user") + "&password=" + word("password");
        return (language().jdbc ? "jdbc:" : "") + place + login;
    }

    Process start(std::vector<std::string> argv, const std::vector<std::string>& words) {
        argv.insert(argv.end(), words.begin(), words.end());
        const std::string name = std::to_string(++started);
        return Process({.argv = argv,
                        .output = folder / (name + ".out"),
                        .errors = folder / (name + ".log"),
                        .dies_with_us = true});
    }
    std::string log() const { return read_text(folder / (std::to_string(started) + ".log")); }

    void wait_for(const std::string& sql, const std::string& value) {
        wait_until(sql + " gives " + value, [&] { return admin.value(sql) == value; });
    }
    void pay(const std::string& id, int order, int amount) {
        admin.query(
            "select baton.receive('payments', $1, 'payment.received', jsonb_build_object('order', $2::int, "
            "'amount', "
            "$3::int))",
            {id, order, amount});
    }

    TemporaryFolder folder;
    int started = 0;
    std::string url = shared_cluster(std::get<0>(GetParam())).fresh_database();
    Connection admin{url};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(All, Languages,
                         testing::Combine(testing::Values(Form::extension, Form::plain),
                                          testing::ValuesIn(languages)),
                         [](const auto& test) {
                             return std::string(std::get<1>(test.param).name) + "_" +
                                    name_of(std::get<0>(test.param));
                         });

TEST_P(Languages, an_order_and_its_event_are_one_and_a_payment_has_its_effect_once) try {
    const auto publish = language().publish(folder.path());
    const auto handle = language().handle(folder.path());
    admin.exec(read_text(examples / "shop.sql"));
    admin.exec(
        "select baton.alter_inbox('payments', backoff_base => '0', backoff_cap => '0', max_retries => "
        "100000)");
    const std::string server = address();

    for (const char* order : {"1", "2"})
        ASSERT_EQ(start(publish, {server, order, "10"}).wait(std::chrono::seconds(120)), 0) << log();
    EXPECT_NE(start(publish, {server, "2", "10"}).wait(std::chrono::seconds(120)), 0) << "the order exists";
    EXPECT_NE(log().find("orders_pkey"), std::string::npos) << log();
    admin.exec("select baton.set_setting('outbox_enabled', 'off')");
    EXPECT_NE(start(publish, {server, "3", "10"}).wait(std::chrono::seconds(120)), 0)
        << "no event can be published";
    EXPECT_EQ(admin.value("select count(*) from orders"), "2") << "an order without its event";
    admin.exec("select baton.set_setting('outbox_enabled', 'on')");
    EXPECT_EQ(admin.value("select string_agg(concat_ws(' ', event_type, aggregate_type, aggregate_id, "
                          "payload ->> 'total'), ', ' "
                          "order by id) from order_events"),
              "order.placed order 1 10, order.placed order 2 10");

    auto one = start(handle, {server});
    auto two = start(handle, {server});
    wait_for(  // from then on both take a SIGTERM as a wish
        "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client "
        "backend' and "
        "pid <> pg_backend_pid()",
        "2");
    for (int again = 0; again < 2; ++again)
        for (int order = 1; order <= 3; ++order) pay("p" + std::to_string(order), order, 10);
    pay("too-little", 1, 1);
    admin.exec("select baton.receive('payments', 'odd', 'gossip', '{}')");
    wait_for("select string_agg(error, ', ') from dlq_payments", "what is a gossip?");
    wait_for("select string_agg(id::text, ' ' order by id) from orders where paid", "1 2");
    wait_for("select coalesce(error, '') from payments where event_id = 'p3'",
             "no such order yet, or not enough");
    admin.exec("select baton.set_setting('outbox_enabled', 'off')");
    admin.exec("insert into orders (id, total) values (3, 10)");
    wait_for(
        "select coalesce(error like '%publishing is switched off%', false) from payments where event_id = "
        "'p3'",
        "t");
    EXPECT_EQ(admin.value("select paid from orders where id = 3"), "f") << "an effect without its event";
    admin.exec("select baton.set_setting('outbox_enabled', 'on')");
    wait_for("select string_agg(id::text, ' ' order by id) from orders where paid", "1 2 3");
    wait_for(
        "select string_agg(event_id, ' ' order by event_id) from payments where processed_at is not null",
        "p1 p2 p3");
    EXPECT_EQ(
        admin.value(
            "select string_agg(aggregate_id, ' ' order by aggregate_id) from order_events where event_type = "
            "'order.paid'"),
        "1 2 3");
    EXPECT_EQ(one.stop(std::chrono::seconds(60)), language().after_sigterm) << read_text(folder / "5.log");
    EXPECT_EQ(two.stop(std::chrono::seconds(60)), language().after_sigterm) << log();
} catch (const Unavailable& reason) {
    GTEST_SKIP() << reason.what();
}
