#include <gtest/gtest.h>

#include "brokers/nats/audit_client.hpp"
#include "brokers/nats/tests/server.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/server_conformance.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/broker.hpp"
#include "support/certificate.hpp"

namespace baton::test {

namespace {

using brokers::NatsClient;

class NatsFixture : public SinkFixture {
  public:
    NatsFixture() {
        server_.settings = {"max_payload: 3MB", "max_pending: 64MB"};
        server_.start();
        proxy_.set_target(server_.port());
    }
    std::string make_destination() override {
        const std::string name = "S" + std::to_string(++count_);
        NatsClient(server_.url()).add_stream(name, name + ".>", 1'500'000);
        return name + ".events";
    }
    relay::Settings settings(const std::string&) override {
        relay::Settings settings("sink");
        settings.set("type", "nats");
        settings.set("url", "nats://127.0.0.1:" + std::to_string(proxy_.port()));
        settings.set("ack_timeout", "5s");
        settings.set("connect_timeout", "2s");
        settings.set("heartbeat", "500ms");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        return NatsClient(server_.url()).read(destination.substr(0, destination.find('.')));
    }
    void kill_broker() override { server_.kill_hard(); }
    void start_broker() override { server_.start(); }
    Proxy* proxy() override { return &proxy_; }
    std::string direct_url() const { return server_.url(); }
    std::string name_missing() override { return "S" + std::to_string(++count_) + ".events"; }
    void make_missing(const std::string& destination) override {
        const std::string name = destination.substr(0, destination.find('.'));
        NatsClient(server_.url()).add_stream(name, name + ".>", 1'500'000);
    }
    bool poison(Message& message, std::string& storage) override {
        storage.assign(2'000'000, 'p');  // the server lets it pass, the stream does not
        message.body = storage;
        return true;
    }
    bool deduplicates() const override { return true; }

  private:
    Proxy proxy_;
    NatsServer server_;
    int count_ = 0;
};

// Send one message alone until it is shut out, and return why.
std::string shut_out(const relay::Settings& settings, Message message) {
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink);
    driver.give({std::move(message)});
    driver.run_until([&] { return driver.shut() >= 2; });
    return driver.last_error();
}

// Send one message alone and return why it was rejected.
std::string rejection_of(const relay::Settings& settings, Message message) {
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink);
    driver.give({std::move(message)});
    driver.run();
    return driver.rejected().empty() ? "" : driver.rejected().begin()->second;
}

Message make_message(const std::string& subject, const std::string& body = "x") {
    static std::vector<std::unique_ptr<std::string>> kept;
    kept.push_back(std::make_unique<std::string>(body));
    Message message;
    message.message_id = "m";
    message.destination = subject;
    message.body = *kept.back();
    return message;
}

TEST(NatsSink, a_subject_without_a_stream_is_shut) {
    NatsFixture fixture;
    const auto words = shut_out(fixture.settings({}), make_message("nobody.listens"));
    EXPECT_NE(words.find("no stream takes the subject nobody.listens"), std::string::npos) << words;
}

TEST(NatsSink, what_the_server_finds_too_large_is_rejected) {
    NatsFixture fixture;
    const auto words = rejection_of(fixture.settings({}),
                                    make_message(fixture.make_destination(), std::string(4'000'000, 'x')));
    EXPECT_NE(words.find("ayload"), std::string::npos) << words;
}

TEST(NatsSink, the_servers_limit_is_the_sinks_once_it_is_connected) {
    NatsFixture fixture;
    fixture.make_destination();
    const auto sink = brokers::make_sink(fixture.settings({}));
    EXPECT_EQ(sink->traits().max_message_bytes, 0U);
    sink->check();
    EXPECT_EQ(sink->traits().max_message_bytes, 3U << 20);
}

TEST(NatsSink, what_is_too_large_with_its_headers_only_is_rejected_and_the_limit_is_named) {
    NatsFixture fixture;
    const std::string destination = fixture.make_destination();
    auto message = make_message(destination, std::string((3 << 20) - 50, 'x'));
    message.headers = {{"a", std::string(100, 'y')}};
    const auto words = rejection_of(fixture.settings({}), message);
    EXPECT_NE(words.find("3145728"), std::string::npos) << words;
}

TEST(NatsSink, a_header_that_would_break_the_protocol_is_rejected) {
    NatsFixture fixture;
    const std::string destination = fixture.make_destination();
    for (const auto& header :
         {Header{"a", "b\r\nc: d"}, Header{"a:b", "c"}, Header{"", "x"}, Header{"ü", "x"}}) {
        auto message = make_message(destination);
        message.headers = {header};
        EXPECT_FALSE(rejection_of(fixture.settings({}), message).empty()) << header.name;
    }
    auto message = make_message(destination);
    message.key = "a\r\nevil: 1";
    EXPECT_FALSE(rejection_of(fixture.settings({}), message).empty());
    EXPECT_TRUE(fixture.read_all(destination).empty());
}

TEST(NatsSink, a_subject_that_the_user_may_not_publish_to_is_shut_in_the_servers_words) {
    NatsServer server;
    server.settings = {
        "authorization { users = [ { user: u, password: p, permissions: { publish: { deny: \"secret.>\" } } "
        "} ] }"};
    server.start();
    relay::Settings settings("sink");
    settings.set("type", "nats");
    settings.set("url", server.url());
    settings.set("username", "u");
    settings.set("password", "p");
    settings.set("ack_timeout", "1s");
    const auto words = shut_out(settings, make_message("secret.events"));
    EXPECT_NE(words.find("ermissions"), std::string::npos) << words;
    settings.set("password", "wrong");
    EXPECT_THROW(brokers::make_sink(settings)->check(), Error);
    EXPECT_NE(shut_out(settings, make_message("open.events")).find("uthorization"), std::string::npos);
}

TEST(NatsSink, tls_and_a_token_are_spoken_and_strangers_are_not_trusted) {
    NatsServer server;
    const auto certificate = make_certificate(server.folder());
    server.settings = {"tls { cert_file: \"" + certificate.cert.string() + "\", key_file: \"" +
                           certificate.key.string() + "\" }",
                       "authorization { token: secret }"};
    server.start();
    relay::Settings settings("sink");
    settings.set("type", "nats");
    settings.set("url", "tls://localhost:" + std::to_string(server.port()));
    settings.set("token", "secret");
    settings.set("connect_timeout", "3s");
    EXPECT_THROW(brokers::make_sink(settings)->check(), Error) << "nobody vouches for the certificate";
    settings.set("tls_ca", certificate.cert.string());
    NatsClient(settings).add_stream("SAFE", "safe.events");
    EXPECT_NO_THROW(brokers::make_sink(settings)->check());
    EXPECT_EQ(rejection_of(settings, make_message("safe.events")), "");
    EXPECT_EQ(NatsClient(settings).read("SAFE").size(), 1U);
    settings.set("token", "wrong");
    EXPECT_THROW(brokers::make_sink(settings)->check(), Error);
}

TEST(NatsSink, a_stream_is_created_when_the_settings_say_so) {
    NatsFixture fixture;
    auto settings = fixture.settings({});
    settings.set("stream", "MADE");
    settings.set("subject", "made.{event_type}");
    settings.set("create_stream", true);
    EXPECT_THROW(brokers::make_sink(settings), relay::SettingsError);
    settings.set("stream_subjects", std::vector<std::string>{"made.*"});
    brokers::make_sink(settings)->check();
    EXPECT_EQ(rejection_of(settings, make_message("made.order")), "");
    EXPECT_EQ(fixture.read_all("MADE.x").size(), 1U);
}

TEST(NatsSink, a_header_of_an_event_is_no_order_to_the_server) {
    NatsFixture fixture;
    natsConnection* connection = nullptr;
    jsCtx* jetstream = nullptr;
    ASSERT_EQ(natsConnection_ConnectTo(&connection, fixture.direct_url().c_str()), NATS_OK);
    ASSERT_EQ(natsConnection_JetStream(&jetstream, connection, nullptr), NATS_OK);
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    const char* subject = "roll.>";
    config.Name = "ROLL";
    config.Subjects = &subject;
    config.SubjectsLen = 1;
    config.AllowRollup = true;
    ASSERT_EQ(js_AddStream(nullptr, jetstream, &config, nullptr, nullptr), NATS_OK);
    jsCtx_Destroy(jetstream);
    natsConnection_Destroy(connection);
    auto settings = fixture.settings({});
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"a", "b"}, {"Nats-Rollup", "all"}, {"c", "d"}}) {
        auto message = make_message("roll.x");
        message.message_id = name;
        message.headers = {{name, value}};
        EXPECT_EQ(rejection_of(settings, message), "") << name;
    }
    EXPECT_EQ(fixture.read_all("ROLL.x").size(), 3U);
}

// What a check says, with its hint; empty when all is well.
std::string finding_of(const relay::Settings& settings) {
    try {
        brokers::make_sink(settings)->check();
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(NatsSink, a_check_finds_that_no_stream_takes_the_subject) {
    NatsFixture fixture;
    NatsClient(fixture.direct_url()).add_stream("SHOP", "shop.>");
    auto settings = fixture.settings({});
    for (const std::string subject :
         {"not.there", "not.{event_type}", "shop.x, not.there", "shopping.{topic|x}"}) {
        settings.set("subject", subject);
        EXPECT_NE(finding_of(settings).find("no stream takes"), std::string::npos) << subject;
    }
    for (const std::string subject :
         {"shop.x", "shop.{event_type}", "shop.a-{key}.b", "{topic}", "shop.x, shop.{key}"}) {
        settings.set("subject", subject);
        EXPECT_EQ(finding_of(settings), "") << subject;
    }
    NatsClient(fixture.direct_url()).delete_stream("SHOP");
    EXPECT_NE(finding_of(fixture.settings({})).find("no stream takes"), std::string::npos);
}

TEST(NatsSink, a_check_finds_that_the_named_stream_is_missing_or_takes_something_else) {
    NatsFixture fixture;
    NatsClient client(fixture.direct_url());
    client.add_stream("SHOP", "shop.>");
    client.add_stream("OTHER", "other.>");
    auto settings = fixture.settings({});
    settings.set("subject", "shop.{event_type}");
    settings.set("stream", "SHIP");
    EXPECT_NE(finding_of(settings).find("no stream SHIP"), std::string::npos) << finding_of(settings);
    settings.set("stream", "OTHER");
    EXPECT_NE(finding_of(settings).find("OTHER does not take"), std::string::npos) << finding_of(settings);
    settings.set("stream", "SHOP");
    EXPECT_EQ(finding_of(settings), "");
}

TEST(NatsSink, no_message_names_a_place_in_the_librarys_source) {
    NatsFixture fixture;
    auto settings = fixture.settings({});
    settings.set("url", "nats://127.0.0.1:" + std::to_string(find_free_port()));
    const std::string away = finding_of(settings);
    EXPECT_NE(away.find("No server available"), std::string::npos) << away;
    EXPECT_EQ(away.find(".c:"), std::string::npos) << away;
    settings.set("url", "tls://127.0.0.1:" + std::to_string(fixture.proxy()->port()));
    const std::string plain = finding_of(settings);
    EXPECT_FALSE(plain.empty());
    EXPECT_EQ(plain.find(".c:"), std::string::npos) << plain;
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Nats, ServerConformance, NatsServer);
INSTANTIATE_TYPED_TEST_SUITE_P(Nats, SinkConformance, NatsFixture);

}  // namespace baton::test
