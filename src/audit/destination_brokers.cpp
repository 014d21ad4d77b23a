// Places at brokers that keep what they were sent until somebody takes it away.

#include <optional>
#include <thread>

#include "audit/destination.hpp"
#include "audit/kafka_client.hpp"
#include "audit/nats_client.hpp"
#include "audit/rabbitmq_client.hpp"
#include "audit/redis_client.hpp"
#include "audit/sqs_client.hpp"
#include "baton/error.hpp"

namespace baton::audit {

using std::chrono::milliseconds;

namespace {

// Where a broker must be asked again and again.
void nap(milliseconds patience) {
    std::this_thread::sleep_for(std::min(patience, milliseconds(2)));
}

class KafkaDestination final : public Destination {
  public:
    explicit KafkaDestination(const Place& place)
        : topic_(place.name), properties_(place.reader.table("properties")) {
        properties_["bootstrap.servers"] = place.reader.text("brokers");
    }
    void create() override { create_topic(properties_, topic_, 3); }
    Values sink_values() override { return {{"topic", topic_}}; }
    Values source_values() const override { return {{"topic", topic_}}; }
    std::string publish_to() const override { return topic_; }
    bool source_keeps_order() const override { return true; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!tail_) tail_.emplace(properties_, topic_);
        return tail_->read(patience);
    }
    void forget() override { tail_.reset(); }
    std::vector<Received> read_all() override { return read_topic(properties_, topic_); }
    void remove() override { delete_topic(properties_, topic_); }

  private:
    std::string topic_;
    KafkaProperties properties_;
    std::optional<KafkaTail> tail_;
};

class NatsDestination final : public Destination {
  public:
    explicit NatsDestination(const Place& place) : name_(place.name), reader_(place.reader) {}
    void create() override { NatsClient(reader_).add_stream(name_, name_ + ".events"); }
    Values sink_values() override { return {{"subject", name_ + ".events"}}; }
    Values source_values() const override { return {{"stream", name_}}; }
    std::string publish_to() const override { return name_ + ".events"; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) {
            client_.emplace(reader_);
            client_->follow(name_, next_);
        }
        std::vector<Received> news;
        for (auto& id : client_->read_on(next_, patience)) news.push_back({std::move(id), {}, {}, {}});
        return news;
    }
    void forget() override { client_.reset(); }
    std::vector<Received> read_all() override { return NatsClient(reader_).read(name_); }
    void remove() override { NatsClient(reader_).delete_stream(name_); }
    bool deduplicates() const override { return true; }

  private:
    std::string name_;
    relay::Settings reader_;
    std::optional<NatsClient> client_;
    std::uint64_t next_ = 1;
};

// An exchange with two queues: one keeps everything for the end, from the other one what comes is read at
// once.
class RabbitDestination final : public Destination {
  public:
    explicit RabbitDestination(const Place& place) : name_(place.name), url_(place.reader.text("url")) {}
    void create() override {
        RabbitClient client(url_);
        client.declare_queue(name_);
        client.declare_exchange(name_, "fanout");
        client.bind(name_, name_, name_);
    }
    Values sink_values() override { return {{"exchange", name_}, {"routing_key", name_}}; }
    Values source_values() const override { return {{"queue", name_}}; }
    std::string publish_to() const override { return name_; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) {
            client_.emplace(url_);
            client_->follow(name_, name_);
        }
        return client_->read(patience);
    }
    void forget() override { client_.reset(); }
    std::vector<Received> read_all() override { return RabbitClient(url_).read_all(name_); }
    void remove() override {
        RabbitClient client(url_);
        client.delete_exchange(name_);
        client.delete_queue(name_);
    }

  private:
    std::string name_;
    std::string url_;
    std::optional<RabbitClient> client_;
};

class RedisDestination final : public Destination {
  public:
    explicit RedisDestination(const Place& place) : name_(place.name), url_(place.reader.text("url")) {}
    void create() override { RedisClient(url_).run({"DEL", name_}); }
    Values sink_values() override { return {{"stream", name_}}; }
    Values source_values() const override { return {{"stream", name_}}; }
    std::string publish_to() const override { return name_; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) client_.emplace(url_);
        auto news = client_->read_stream(name_, after_);
        if (news.empty()) nap(patience);
        return news;
    }
    void forget() override { client_.reset(); }
    std::vector<Received> read_all() override { return RedisClient(url_).read_stream(name_); }
    void remove() override { RedisClient(url_).run({"DEL", name_}); }

  private:
    std::string name_;
    std::string url_;
    std::optional<RedisClient> client_;
    std::string after_ = "0";
};

class SqsDestination final : public Destination {
  public:
    explicit SqsDestination(const Place& place)
        : name_(place.name + (place.sink.text("queue", "").ends_with(".fifo") ? ".fifo" : "")),
          client_(place.reader) {}
    void create() override { url_ = client_.create_queue(name_); }
    Values sink_values() override { return source_values(); }
    // By name, because the relay may go another way to the same server.
    Values source_values() const override {
        const auto path = url_.find('/', url_.find("://") + 3) + 1;
        return {{"queue", name_}, {"account", url_.substr(path, url_.find('/', path) - path)}};
    }
    std::string publish_to() const override { return name_; }
    // Reading takes messages away, so they are kept here.
    std::vector<Received> follow(milliseconds patience) override {
        const std::size_t before = all_.size();
        client_.drain(url_, all_);
        if (all_.size() == before) nap(std::max(patience, milliseconds(10)));
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

std::unique_ptr<Destination> make_kafka_destination(Place place) {
    return std::make_unique<KafkaDestination>(place);
}
std::unique_ptr<Destination> make_nats_destination(Place place) {
    return std::make_unique<NatsDestination>(place);
}
std::unique_ptr<Destination> make_rabbitmq_destination(Place place) {
    return std::make_unique<RabbitDestination>(place);
}
std::unique_ptr<Destination> make_redis_destination(Place place) {
    return std::make_unique<RedisDestination>(place);
}
std::unique_ptr<Destination> make_sqs_destination(Place place) {
    return std::make_unique<SqsDestination>(place);
}

}  // namespace baton::audit
