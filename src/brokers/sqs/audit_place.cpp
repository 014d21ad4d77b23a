#include "brokers/sqs/audit_place.hpp"

#include <thread>

#include "brokers/sqs/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class SqsPlace final : public AuditPlace {
  public:
    explicit SqsPlace(const PlaceRequest& request)
        : name_(request.name + (request.sink.text("queue", "").ends_with(".fifo") ? ".fifo" : "")),
          client_(request.reader) {}
    void create() override { url_ = client_.create_queue(name_); }
    Values sink_values() override { return source_values(); }
    // By name, because the relay may go another way to the same server.
    Values source_values() const override {
        const auto path = url_.find('/', url_.find("://") + 3) + 1;
        return {{"queue", name_}, {"account", url_.substr(path, url_.find('/', path) - path)}};
    }
    std::string publish_to() const override { return name_; }
    // Reading takes messages away, so they are kept here.
    std::vector<Received> follow(milliseconds) override {
        const std::size_t before = all_.size();
        client_.drain(url_, all_);
        if (all_.size() == before) std::this_thread::sleep_for(milliseconds(2));
        return {all_.begin() + static_cast<std::ptrdiff_t>(before), all_.end()};
    }
    void forget() override {}
    // What an answer that was lost took along comes back after the queue's visibility time, 30 s.
    std::vector<Received> read_all() override {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(90);
        client_.drain(url_, all_);
        while (client_.holds_back(url_) && std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(milliseconds(500));
            client_.drain(url_, all_);
        }
        return all_;
    }
    void remove() override { client_.delete_queue(url_); }
    bool keeps_order() const override { return name_.ends_with(".fifo"); }

  private:
    std::string name_;
    SqsClient client_;
    std::string url_;
    std::vector<Received> all_;
};

}  // namespace

std::unique_ptr<AuditPlace> make_sqs_place(const PlaceRequest& request) {
    return std::make_unique<SqsPlace>(request);
}

}  // namespace baton::brokers
