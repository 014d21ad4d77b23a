#include "audit/destination.hpp"

#include <fstream>
#include <thread>

#include "audit/lines.hpp"
#include "baton/error.hpp"

namespace baton::audit {

namespace {

class FileDestination final : public Destination {
  public:
    explicit FileDestination(const Place& place)
        : file_(std::filesystem::path(place.reader.text("folder", place.folder.string())) /
                (place.name + ".jsonl")) {}

    void create() override {}
    Values sink_values() override { return {{"path", file_.string()}}; }
    std::vector<Received> follow(std::chrono::milliseconds patience) override {
        std::vector<Received> news = read_on();
        if (news.empty()) std::this_thread::sleep_for(std::min(patience, std::chrono::milliseconds(2)));
        return news;
    }
    void forget() override {}
    std::vector<Received> read_all() override { return read_lines(file_); }
    void remove() override { std::filesystem::remove(file_); }

  private:
    // Whole lines only; one that was cut off by a crash is removed by the next relay, so start over behind
    // it.
    std::vector<Received> read_on() {
        std::vector<Received> news;
        std::ifstream file(file_);
        file.seekg(offset_);
        for (std::string line; std::getline(file, line) && !file.eof();) {
            if (line.starts_with("{\"id\":\"") && line.ends_with("}"))
                news.push_back({line.substr(7, line.find('"', 7) - 7), {}, {}, {}});
            offset_ += static_cast<std::streamoff>(line.size()) + 1;
        }
        return news;
    }

    std::filesystem::path file_;
    std::streamoff offset_ = 0;
};

}  // namespace

Destination::Values Destination::source_values() const {
    throw UsageError("the way in from here cannot be audited",
                     "audit one of: http, kafka, nats, rabbitmq, redis, sqs");
}

std::unique_ptr<Destination> make_file_destination(Place place) {
    return std::make_unique<FileDestination>(place);
}

std::unique_ptr<Destination> make_destination(Place place) {
    using Make = std::unique_ptr<Destination> (*)(Place);
    static const std::map<std::string, Make> makers{
        {"file", make_file_destination},   {"http", make_http_destination},
        {"kafka", make_kafka_destination}, {"nats", make_nats_destination},
        {"redis", make_redis_destination}, {"postgres", make_postgres_destination},
        {"sqs", make_sqs_destination},     {"rabbitmq", make_rabbitmq_destination}};
    const auto found = makers.find(place.sink.text("type"));
    if (found == makers.end()) {
        std::string known;
        for (const auto& [name, make] : makers) known += (known.empty() ? "" : ", ") + name;
        place.sink.refuse("type", "is \"" + place.sink.text("type") + "\", which cannot be read back",
                          "audit one of: " + known);
    }
    return found->second(std::move(place));
}

}  // namespace baton::audit
