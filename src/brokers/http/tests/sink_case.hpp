#pragma once
// An http sink and a receiver for the messages of one test.

#include <gtest/gtest.h>

#include <map>

#include "brokers/http/tests/receiver.hpp"
#include "brokers/registry.hpp"
#include "relay/io.hpp"
#include "support/cluster.hpp"

namespace baton::test {

class HttpSinkTest : public testing::Test {
  protected:
    void SetUp() override {
        receiver_.start();
        settings_.set("type", "http");
        settings_.set("url", url());
        settings_.set("allow_private", true);
    }
    std::string url(const std::string& host = "127.0.0.1") const {
        return "http://" + host + ":" + std::to_string(receiver_.port()) + "/";
    }
    static std::vector<Message> messages(std::size_t count) {
        std::vector<Message> made(count);
        for (std::size_t i = 0; i < count; ++i) {
            made[i].ticket = i + 1;
            made[i].message_id = "m" + std::to_string(i);
            made[i].body = "{}";
            made[i].content_type = "application/json";
        }
        return made;
    }
    static std::map<std::uint64_t, relay::Delivery> collect_all(relay::Sink& sink, std::size_t count) {
        std::vector<relay::Delivery> deliveries;
        wait_until("every message is reported", [&] {
            sink.collect(deliveries, std::chrono::milliseconds(50));
            return deliveries.size() >= count;
        });
        std::map<std::uint64_t, relay::Delivery> fate;
        for (const auto& delivery : deliveries) fate.emplace(delivery.ticket, delivery);
        EXPECT_EQ(fate.size(), deliveries.size());
        return fate;
    }
    std::map<std::uint64_t, relay::Delivery> deliver(const std::vector<Message>& messages) {
        const auto sink = brokers::make_sink(settings_);
        sink->send(messages);
        return collect_all(*sink, messages.size());
    }
    relay::Delivery deliver_one() { return deliver(messages(1)).at(1); }

    WebhookReceiver receiver_;
    relay::Settings settings_{"sink"};
};

}  // namespace baton::test
