#include "brokers/http/audit_place.hpp"

#include <httplib.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/process.hpp"
#include "baton/error.hpp"

namespace baton::brokers {

namespace {

class HttpPlace final : public AuditPlace {
  public:
    explicit HttpPlace(const PlaceRequest& request)
        : port_(static_cast<int>(request.reader.number("port", 0))),
          path_("/" + request.name),
          base_(request.sink.text("url", request.reader.text("url", ""))),
          way_in_(request.sink.has("listen")),
          reader_(request.reader) {
        if (way_in_ && base_.empty()) base_ = "http://" + request.sink.text("listen");
        if (port_ == 0 && !way_in_) port_ = find_free_port();
    }
    ~HttpPlace() override { stop(); }

    void create() override {
        if (way_in_) return;
        server_.Post(path_, [this](const httplib::Request& request, httplib::Response& response) {
            if (!knows(request)) {
                response.status = 401;
                return;
            }
            take(request);
            response.status = 204;
        });
        thread_ = std::thread([this] { server_.listen("127.0.0.1", port_); });
        while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    Values sink_values() override {
        const std::string base = base_.empty() ? "http://127.0.0.1:" + std::to_string(port_) : base_;
        return {{"url", base + path_}, {"allow_private", true}};
    }
    Values source_values() const override { return {{"path", path_}}; }
    std::string publish_to() const override { return base_ + path_; }
    std::vector<Received> follow(std::chrono::milliseconds patience) override {
        std::unique_lock lock(mutex_);
        came_.wait_for(lock, patience, [this] { return followed_ < all_.size(); });
        std::vector<Received> news(all_.begin() + static_cast<std::ptrdiff_t>(followed_), all_.end());
        followed_ = all_.size();
        return news;
    }
    void forget() override {}
    std::vector<Received> read_all() override {
        const std::lock_guard lock(mutex_);
        return all_;
    }
    void remove() override { stop(); }

  private:
    // Whether the sender has the secret that the reader's settings name, as it is now.
    bool knows(const httplib::Request& request) {
        const std::lock_guard lock(mutex_);
        const std::string wanted = reader_.text("authorization", "");
        return wanted.empty() || request.get_header_value("authorization") == wanted;
    }
    void take(const httplib::Request& request) {
        std::vector<Received> messages;
        const auto body = nlohmann::json::parse(request.body, nullptr, false);
        const std::string id = request.get_header_value("webhook-id");
        if (body.is_array() && request.get_header_value("partition-key").empty())
            for (const auto& item : body) messages.push_back({item.value("id", ""), {}, item.dump(), {}});
        else
            messages.push_back({id, request.get_header_value("partition-key"), request.body, {}});
        const std::lock_guard lock(mutex_);
        all_.insert(all_.end(), messages.begin(), messages.end());
        came_.notify_one();
    }
    void stop() {
        server_.stop();
        if (thread_.joinable()) thread_.join();
    }

    int port_;
    std::string path_;
    std::string base_;
    bool way_in_;
    relay::Settings reader_;
    httplib::Server server_;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<Received> all_;
    std::size_t followed_ = 0;
};

}  // namespace

std::unique_ptr<AuditPlace> make_http_place(const PlaceRequest& request) {
    return std::make_unique<HttpPlace>(request);
}

}  // namespace baton::brokers
