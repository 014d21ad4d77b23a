#include "brokers/redis/audit_place.hpp"

#include <optional>
#include <thread>

#include "brokers/redis/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class RedisPlace final : public AuditPlace {
  public:
    explicit RedisPlace(const PlaceRequest& request)
        : name_(request.name), url_(request.reader.text("url")) {}
    void create() override { RedisClient(url_).run({"DEL", name_}); }
    Values sink_values() override { return {{"stream", name_}}; }
    Values source_values() const override { return {{"stream", name_}}; }
    std::string publish_to() const override { return name_; }
    std::vector<Received> follow(milliseconds patience) override {
        if (!client_) client_.emplace(url_);
        auto news = client_->read_stream(name_, after_);
        if (news.empty()) std::this_thread::sleep_for(std::min(patience, milliseconds(2)));
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

}  // namespace

std::unique_ptr<AuditPlace> make_redis_place(const PlaceRequest& request) {
    return std::make_unique<RedisPlace>(request);
}

}  // namespace baton::brokers
