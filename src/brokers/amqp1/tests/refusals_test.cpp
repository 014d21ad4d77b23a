// What becomes of messages at brokers that refuse some: a peer of the test's own, made of Proton's engine
// too, which does to a message what its body says, because Artemis gives few of these answers.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <thread>

#include "brokers/amqp1/connection.hpp"
#include "brokers/amqp1/message.hpp"
#include "brokers/amqp1/sink.hpp"
#include "support/cluster.hpp"

namespace baton::test {

namespace {

using namespace std::chrono_literals;
using relay::Verdict;

// One connection, from the side of the broker.
class Peer {
  public:
    explicit Peer(int client) : client_(client) {
        pn_connection_driver_init(&driver_, nullptr, nullptr);
        pn_transport_set_server(driver_.transport);
    }
    ~Peer() {
        pn_connection_driver_destroy(&driver_);
        ::close(client_);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    void serve() {
        while (!pn_connection_driver_finished(&driver_)) {
            while (pn_event_t* event = pn_connection_driver_next_event(&driver_)) handle(event);
            const pn_bytes_t out = pn_connection_driver_write_buffer(&driver_);
            if (out.size > 0) {
                const auto sent = ::send(client_, out.start, out.size, MSG_NOSIGNAL);
                if (sent <= 0) return;
                pn_connection_driver_write_done(&driver_, static_cast<std::size_t>(sent));
                continue;
            }
            if (pn_connection_driver_write_closed(&driver_)) return;
            const pn_rwbytes_t in = pn_connection_driver_read_buffer(&driver_);
            const auto got = ::recv(client_, in.start, in.size, 0);
            if (got <= 0) return;
            pn_connection_driver_read_done(&driver_, static_cast<std::size_t>(got));
        }
    }

  private:
    void handle(pn_event_t* event) {
        pn_link_t* link = pn_event_link(event);
        switch (pn_event_type(event)) {
            case PN_CONNECTION_REMOTE_OPEN:
                return pn_connection_open(driver_.connection);
            case PN_SESSION_REMOTE_OPEN:
                return pn_session_open(pn_event_session(event));
            case PN_LINK_REMOTE_OPEN:
                return open(link);
            case PN_DELIVERY:
                if (!ended_ && pn_delivery_readable(pn_event_delivery(event)) &&
                    !pn_delivery_partial(pn_event_delivery(event)))
                    answer(link, pn_event_delivery(event));
                return;
            default:
                return;
        }
    }
    // An address "refuse NAME" is refused with that error; "silent" gets no credit, "small" takes 1000 bytes.
    void open(pn_link_t* link) {
        ended_ = false;
        const std::string address = pn_terminus_get_address(pn_link_remote_target(link));
        const bool refused = address.starts_with("refuse ");
        if (!refused) pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
        if (address == "small") pn_link_set_max_message_size(link, 1000);
        pn_link_open(link);
        if (refused) {
            set_error(pn_link_condition(link), address.substr(7));
            pn_link_close(link);
        } else if (address != "silent") {
            pn_link_flow(link, 100);
        }
    }
    static void set_error(pn_condition_t* condition, const std::string& name) {
        pn_condition_set_name(condition, name.c_str());
        pn_condition_set_description(condition, "as the test wants");
    }
    void answer(pn_link_t* link, pn_delivery_t* delivery) {
        std::string bytes(pn_delivery_pending(delivery), '\0');
        pn_link_recv(link, bytes.data(), bytes.size());
        pn_link_advance(link);
        intake::BrokerBatch batch;
        const std::string order(brokers::Amqp1Codec().decode(bytes, batch).body.value_or(""));
        const auto error = order.substr(std::min(order.find(' '), order.size() - 1) + 1);
        ended_ = order.starts_with("detach ") || order.starts_with("close ");
        if (order.starts_with("detach ")) {
            set_error(pn_link_condition(link), error);
            return pn_link_close(link);
        }
        if (order.starts_with("close ")) {
            set_error(pn_connection_condition(driver_.connection), error);
            return pn_connection_close(driver_.connection);
        }
        if (order.starts_with("accept")) pn_delivery_update(delivery, PN_ACCEPTED);
        if (order == "release") pn_delivery_update(delivery, PN_RELEASED);
        if (order == "modify") pn_delivery_update(delivery, PN_MODIFIED);
        if (order.starts_with("reject")) {
            if (order != "reject") set_error(pn_disposition_condition(pn_delivery_local(delivery)), error);
            pn_delivery_update(delivery, PN_REJECTED);
        }
        if (order == "ignore") return;
        pn_delivery_settle(delivery);
    }

    int client_;
    pn_connection_driver_t driver_{};
    bool ended_ = false;  // nothing is answered any more, on this link
};

class Scripted {
  public:
    Scripted() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
            ::listen(listener_, 16) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
            throw Error("cannot listen");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] {
            for (int client = 0; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) Peer(client).serve();
        });
    }
    ~Scripted() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    Scripted(const Scripted&) = delete;
    Scripted& operator=(const Scripted&) = delete;

    std::unique_ptr<relay::Sink> make_sink(const char* ack_timeout = "10s") const {
        relay::Settings settings("sink");
        settings.set("url", "amqp://127.0.0.1:" + std::to_string(port_));
        settings.set("sasl", "none");
        settings.set("address", "t");
        settings.set("ack_timeout", ack_timeout);
        return brokers::make_amqp1_sink(settings);
    }

  private:
    int listener_;
    int port_ = 0;
    std::thread thread_;
};

struct Order {
    std::string body;
    std::string address = "t";
};

// Send a message for each order; those that come back to be tried again are sent again as often as
// `may_go_on` says.
std::map<std::string, relay::Delivery> deliver(
    relay::Sink& sink, const std::vector<Order>& orders,
    const std::function<bool()>& may_go_on = [] { return false; }) {
    std::map<std::string, relay::Delivery> fates;
    wait_until("every message has found its fate", [&] {
        std::vector<Message> messages;
        for (std::size_t i = 0; i < orders.size(); ++i) {
            const auto fate = fates.find(orders[i].body);
            if (fate != fates.end() && fate->second.verdict != Verdict::retry) continue;
            Message& message = messages.emplace_back();
            message.ticket = i;
            message.message_id = "m" + std::to_string(i);
            message.destination = orders[i].address;
            message.body = orders[i].body;
        }
        if (messages.empty()) return true;
        sink.send(messages);
        std::vector<relay::Delivery> deliveries;
        wait_until("every message is reported", [&] {
            sink.collect(deliveries, 20ms);
            return deliveries.size() >= messages.size();
        });
        for (auto& delivery : deliveries) fates.insert_or_assign(orders[delivery.ticket].body, delivery);
        return !may_go_on();
    });
    return fates;
}

TEST(Amqp1Refusals, an_outcome_says_whose_fault_it_is) {
    const Scripted server;
    const auto sink = server.make_sink();
    EXPECT_FALSE(sink->traits().keeps_order_after_failure) << "the broker takes what follows a refused one";
    const std::map<std::string, Verdict> expected{
        {"accept", Verdict::delivered},
        {"release", Verdict::retry},
        {"modify", Verdict::retry},
        {"settle", Verdict::retry},
        {"reject", Verdict::rejected},
        {"reject amqp:decode-error", Verdict::rejected},
        {"reject amqp:link:message-size-exceeded", Verdict::rejected},
        {"reject amqp:precondition-failed", Verdict::rejected},
        {"reject amqp:not-found", Verdict::shut},
        {"reject amqp:unauthorized-access", Verdict::shut},
        {"reject amqp:resource-limit-exceeded", Verdict::retry},
        {"reject amqp:internal-error", Verdict::retry},
        {"reject com.microsoft:server-busy", Verdict::retry},
        {"reject failed", Verdict::retry},
    };
    std::vector<Order> orders;
    for (const auto& [body, verdict] : expected) orders.push_back({body});
    auto fates = deliver(*sink, orders);
    for (const auto& [body, verdict] : expected) {
        ASSERT_TRUE(fates.contains(body)) << body;
        EXPECT_EQ(fates[body].verdict, verdict) << body << " " << fates[body].error;
        EXPECT_EQ(fates[body].error.empty(), verdict == Verdict::delivered) << body;
    }
}

TEST(Amqp1Refusals, a_link_that_is_refused_is_the_fault_of_its_address_alone) {
    const Scripted server;
    const auto sink = server.make_sink();
    auto fates = deliver(*sink, {{"accept 1"},
                                 {"accept 2", "refuse amqp:not-found"},
                                 {"accept 3", "refuse amqp:unauthorized-access"},
                                 {"accept 4", "refuse amqp:resource-deleted"},
                                 {"accept 5", "refuse amqp:internal-error"},
                                 {"accept 6"}});
    EXPECT_EQ(fates["accept 1"].verdict, Verdict::delivered);
    EXPECT_EQ(fates["accept 2"].verdict, Verdict::shut);
    EXPECT_NE(fates["accept 2"].error.find("as the test wants"), std::string::npos)
        << fates["accept 2"].error;
    EXPECT_EQ(fates["accept 3"].verdict, Verdict::shut);
    EXPECT_EQ(fates["accept 4"].verdict, Verdict::shut);
    EXPECT_EQ(fates["accept 5"].verdict, Verdict::retry);
    EXPECT_EQ(fates["accept 6"].verdict, Verdict::delivered);
}

TEST(Amqp1Refusals, the_message_over_which_a_link_or_a_connection_ends_is_found_and_the_others_go_on) {
    for (const std::string guilty :
         {"detach amqp:link:message-size-exceeded", "close amqp:decode-error", "close amqp:invalid-field"}) {
        const Scripted server;
        const auto sink = server.make_sink();
        auto fates = deliver(*sink, {{"accept 1"}, {"accept 2"}, {guilty}, {"accept 3"}, {"accept 4"}},
                             [] { return true; });
        EXPECT_EQ(fates[guilty].verdict, Verdict::rejected) << guilty;
        EXPECT_NE(fates[guilty].error.find("as the test wants"), std::string::npos) << fates[guilty].error;
        for (const char* good : {"accept 1", "accept 2", "accept 3", "accept 4"})
            EXPECT_EQ(fates[good].verdict, Verdict::delivered) << good << " " << fates[good].error;
    }
}

TEST(Amqp1Refusals, a_broker_that_ends_something_for_its_own_sake_rejects_nothing) {
    for (const std::string end : {"close amqp:connection:forced", "close amqp:internal-error",
                                  "detach amqp:link:detach-forced", "detach amqp:internal-error"}) {
        const Scripted server;
        const auto sink = server.make_sink();
        auto fates = deliver(*sink, {{end}}, [left = 4]() mutable { return --left > 0; });
        EXPECT_EQ(fates[end].verdict, Verdict::retry) << end;
    }
}

TEST(Amqp1Refusals, an_address_that_gets_no_credit_gives_its_messages_back_and_the_others_go_on) {
    const Scripted server;
    const auto sink = server.make_sink("300ms");
    auto fates = deliver(*sink, {{"accept 1", "silent"}, {"accept 2"}});
    EXPECT_EQ(fates["accept 1"].verdict, Verdict::retry);
    EXPECT_NE(fates["accept 1"].error.find("no credit"), std::string::npos) << fates["accept 1"].error;
    EXPECT_EQ(fates["accept 2"].verdict, Verdict::delivered);
}

TEST(Amqp1Refusals, a_message_without_an_answer_is_given_back) {
    const Scripted server;
    const auto sink = server.make_sink("300ms");
    auto fates = deliver(*sink, {{"ignore"}});
    EXPECT_EQ(fates["ignore"].verdict, Verdict::retry);
    EXPECT_NE(fates["ignore"].error.find("no answer"), std::string::npos) << fates["ignore"].error;
}

TEST(Amqp1Refusals, what_is_larger_than_the_broker_takes_is_rejected_before_it_is_sent) {
    const Scripted server;
    const auto sink = server.make_sink();
    EXPECT_EQ(sink->traits().max_message_bytes, 0U);
    const std::string large = "accept " + std::string(2000, 'x');
    auto fates = deliver(*sink, {{"accept", "small"}, {large, "small"}});
    EXPECT_EQ(fates["accept"].verdict, Verdict::delivered);
    EXPECT_EQ(fates[large].verdict, Verdict::rejected);
    EXPECT_NE(fates[large].error.find("takes 1000"), std::string::npos) << fates[large].error;
    EXPECT_EQ(sink->traits().max_message_bytes, 1000U);
}

}  // namespace

}  // namespace baton::test
