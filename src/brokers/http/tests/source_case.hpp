#pragma once
// An http source for the requests of one test.

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "base/process.hpp"
#include "brokers/registry.hpp"
#include "support/program.hpp"

namespace baton::test {

using namespace std::chrono_literals;

// A source that a test answers for: nothing is settled unless the test says so.
class WebhookSource : public testing::Test {
  protected:
    WebhookSource() {
        settings_.set("type", "http");
        settings_.set("listen", "127.0.0.1:" + std::to_string(port_));
        settings_.set("path", "/hooks/*");
        client_.set_read_timeout(60s);
    }
    ~WebhookSource() override { stop(); }

    void start() {
        source_ = brokers::make_source(settings_, {"in", "one"});
        feed_ = source_->open();
        reader_ = std::thread([this] {
            while (!ended_) {
                if (auto batch = feed_->read(10ms)) {
                    for (const auto& event : batch->events) take(event);
                    if (settling_) feed_->settle(batch, batch->events.size(), {});
                    batches_.push_back(std::move(batch));
                }
            }
            if (settle_at_end_)
                for (const auto& batch : batches_) feed_->settle(batch, batch->events.size(), {});
            feed_->close();
        });
    }
    void stop() {
        ended_ = true;
        if (reader_.joinable()) reader_.join();
        feed_.reset();
    }
    int post(const httplib::Headers& headers, const std::string& body, const std::string& path = "/hooks/a") {
        const auto answer = client_.Post(path, headers, body, "application/json");
        if (!answer) throw Error("no answer: " + httplib::to_string(answer.error()));
        retry_after_ = answer->get_header_value("Retry-After");
        return answer->status;
    }
    std::vector<std::string> ids() {
        const std::lock_guard lock(mutex_);
        return ids_;
    }
    std::string last_payload() {
        const std::lock_guard lock(mutex_);
        return last_payload_;
    }

    int port_ = find_free_port();
    relay::Settings settings_{"source"};
    httplib::Client client_{"127.0.0.1", port_};
    std::atomic<bool> settling_{true};
    std::atomic<bool> settle_at_end_{false};
    std::string retry_after_;
    std::string last_headers_;
    std::string last_topic_;

  private:
    void take(const Event& event) {
        const std::lock_guard lock(mutex_);
        ids_.emplace_back(event.event_id);
        last_headers_ = event.headers.value_or("");
        last_topic_ = event.topic.value_or("");
        last_payload_ = event.payload.value_or("");
    }

    std::shared_ptr<const brokers::BrokerSource> source_;
    std::unique_ptr<relay::Feed> feed_;
    std::thread reader_;
    std::atomic<bool> ended_{false};
    std::mutex mutex_;
    std::vector<std::string> ids_;
    std::string last_payload_;
    std::vector<relay::BatchPtr> batches_;
};

}  // namespace baton::test
