// A relay whose every connection to PostgreSQL is encrypted and whose server proves who it is.

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.hpp"
#include "support/certificate.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Encrypted : public testing::TestWithParam<Form> {
  protected:
    Encrypted() {
        const auto certificate = make_certificate(folder / "tls");
        Connection root(cluster.server().url());
        // The server wants the key for itself alone, so it writes the file.
        for (const auto& [name, path] :
             {std::pair("server.crt", certificate.cert), {"server.key", certificate.key}})
            root.exec("copy (select unnest(string_to_array('" + read_text(path) +
                      "', e'\\n'))) to program 'umask 077; cat > " + name + "'");
        root.exec("alter system set ssl = on");
        root.exec("select pg_reload_conf()");
        root.exec("alter role postgres password 'secret'");
        if (GetParam() == Form::plain) root.exec("alter role installer password 'secret'");
        const auto word = [this](const std::string& name) {
            const auto begin = direct.find(name + "=");
            return direct.substr(begin, direct.find(' ', begin) - begin);
        };
        url = "host=127.0.0.1 port=" + std::to_string(cluster.server().port()) + " " + word("user") + " " +
              word("dbname") +
              " password=secret sslmode=verify-full sslrootcert=" + certificate.cert.string();
        wait_until("the server speaks TLS", [this] {
            try {
                return Connection(url).value("select ssl from pg_stat_ssl where pid = pg_backend_pid()") ==
                       "t";
            } catch (const ConnectionError&) {
                return false;
            }
        });
    }

    Cluster cluster{GetParam()};
    TemporaryFolder folder;
    std::string direct = cluster.fresh_database();
    Connection admin{direct};
    std::string url;
};

}  // namespace

TEST_P(Encrypted, a_relay_carries_small_and_large_events_and_none_of_them_is_stuck_in_a_buffer) {
    admin.exec("select baton.create_outbox('orders')");
    admin.exec("select baton.create_inbox('arrivals')");
    std::ofstream(folder / "relay.toml")
        << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = \"orders\"\n"
        << "[pipeline.sink]\ntype = \"postgres\"\nurl = \"" << url << "\"\ninbox = \"arrivals\"\n";
    const auto arrivals = [this](const std::string& count) {
        wait_until(count + " events arrived",
                   [&] { return admin.value("select count(*) from arrivals") == count; });
    };
    // Sizes that end everywhere within TLS records and the library's buffers.
    admin.exec(
        "insert into orders (event_type, aggregate_id, payload) select 'order.changed', 'k' || i % 8, "
        "jsonb_build_object('n', i, 'note', (select string_agg(md5(random()::text), '') from "
        "generate_series(1, i * i % 700))) from generate_series(1, 4000) i");
    auto relay = start_baton({"relay", "--db", url, "--config", (folder / "relay.toml").string()},
                             folder / "out", folder / "log");
    arrivals("4000");
    for (int i = 1; i <= 20; ++i) {
        admin.exec("select baton.publish('orders', 'order.changed', '{}')");
        arrivals(std::to_string(4000 + i));
    }
    EXPECT_EQ(admin.value(
                  "select count(*) from pg_stat_activity a join pg_stat_ssl s using (pid) where a.datname = "
                  "current_database() and a.pid <> pg_backend_pid() and not s.ssl and a.backend_type = "
                  "'client backend'"),
              "0");
    EXPECT_NE(
        admin.value("select count(*) from pg_stat_activity a join pg_stat_ssl s using (pid) where s.ssl and "
                    "a.datname = current_database()"),
        "0");
    EXPECT_EQ(relay.stop(), 0);
    EXPECT_EQ(
        admin.value("select count(*) from arrivals a join orders o on a.event_id = o.event_id::text where "
                    "a.payload = o.payload"),
        "4020");
}

INSTANTIATE_TEST_SUITE_P(Forms, Encrypted, testing::Values(Form::extension, Form::plain),
                         [](const auto& it) { return name_of(it.param); });
