#include "conformance/way_in.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "assembly/pipeline_parts.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"

namespace baton::test {

namespace {

using nlohmann::json;

// Write a value as TOML.
std::string toml(const relay::Settings::Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return json(*text).dump();
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
    return json(std::get<std::vector<std::string>>(value)).dump();
}

}  // namespace

WayIn::WayIn(SourceFixture& fixture, Cluster& cluster, bool with_inbox)
    : fixture_(fixture), place_(fixture.make_place()), database_(cluster.fresh_database()) {
    if (with_inbox) Connection(database_).query("select baton.create_inbox('arrivals')");
}

WayIn::~WayIn() = default;

Message& WayIn::add(const std::string& id, const std::string& key, std::string body,
                    const std::string& type) {
    const std::string& kept_key = bytes_.emplace_back(key);
    const std::string& kept_body = bytes_.emplace_back(std::move(body));
    const std::string& kept_type = bytes_.emplace_back(type);
    const std::string& kept_id = bytes_.emplace_back(id);
    Event& event = events_.emplace_back();
    event.event_id = kept_id;
    event.source_id = kept_id;
    Message& message = messages_.emplace_back();
    message.message_id = id;
    message.destination = fixture_.destination(place_);
    message.key = kept_key;
    message.body = kept_body;
    message.content_type = kept_type;
    message.event = &event;
    return message;
}

void WayIn::add_keyed(std::size_t count, std::size_t padding) {
    const std::size_t before = messages_.size();
    for (std::size_t i = before; i < before + count; ++i) {
        const std::string key = "key-" + std::to_string(i % 8);
        const std::string body =
            R"({"n":)" + std::to_string(i) + R"(,"pad":")" + std::string(padding, 'x') + "\"}";
        add("m" + std::to_string(i), key, body).headers = {{"n", std::to_string(i)},
                                                           {"event-type", "conformance"}};
    }
}

void WayIn::publish() {
    relay::Settings settings("sink");
    for (const auto& [key, value] : fixture_.sink()) settings.set(key, value);
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink);
    driver.give({messages_.begin() + static_cast<std::ptrdiff_t>(published_), messages_.end()});
    driver.run();
    if (!driver.rejected().empty()) throw Error("cannot publish: " + driver.rejected().begin()->second);
    published_ = messages_.size();
}

Table WayIn::table(const std::string& reader, const Table& more) const {
    Table all;
    for (const auto& [key, value] : fixture_.source(place_, reader)) all["source." + key] = value;
    all["sink.type"] = "postgres";
    all["sink.url"] = database_;
    all["sink.inbox"] = "arrivals";
    all["sink.timeout"] = "2s";
    all["failure.backoff"] = "20ms";
    all["failure.backoff_limit"] = "200ms";
    all["failure.breaker_backoff"] = "50ms";
    all["failure.breaker_limit"] = "500ms";
    for (const auto& [key, value] : more) all[key] = value;
    return all;
}

relay::Settings WayIn::settings(const std::string& reader, const Table& more) const {
    relay::Settings settings("pipeline in");
    settings.set("name", "in");
    for (const auto& [key, value] : table(reader, more)) settings.set(key, value);
    return settings;
}

std::unique_ptr<relay::Pipeline> WayIn::start(const std::string& reader, const Table& more) const {
    auto parts = assembly::make_parts(settings(reader, more), {database_, reader});
    parts.reconnect = {std::chrono::milliseconds(50), std::chrono::milliseconds(500)};
    auto pipeline = std::make_unique<relay::Pipeline>(std::move(parts));
    pipeline->start();
    return pipeline;
}

void WayIn::write_config(const std::filesystem::path& file, const Table& more) const {
    std::ofstream out(file);
    out << "[[pipeline]]\nname = \"in\"\n";
    for (const auto& [key, value] : table("one", more)) out << key << " = " << toml(value) << "\n";
}

std::size_t WayIn::count() const {
    try {
        return std::stoul(Connection(database_).value("select count(*) from arrivals"));
    } catch (const Error&) {  // the server may be away
        return 0;
    }
}

std::size_t WayIn::duplicates() const {
    return std::stoul(Connection(database_).value(
        "select coalesce(sum(duplicates), 0) from baton_internal.inbox_duplicates"));
}

std::vector<Arrived> WayIn::arrived() const {
    const auto rows = Connection(database_).query(
        "select event_id, payload::text, encode(payload_raw, 'hex'), headers::text, error, event_type, "
        "headers ->> 'partition-key' from arrivals order by received_at, event_id");
    std::vector<Arrived> all;
    for (int row = 0; row < rows.rows(); ++row) {
        Arrived& it = all.emplace_back();
        it.id = rows.text(row, 0);
        it.has_payload = !rows.is_null(row, 1);
        if (it.has_payload) it.payload = rows.text(row, 1);
        it.has_bytes = !rows.is_null(row, 2);
        const std::string hex = it.has_bytes ? rows.text(row, 2) : "";
        for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
            it.bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
        if (!rows.is_null(row, 3)) it.headers = rows.text(row, 3);
        if (!rows.is_null(row, 4)) it.error = rows.text(row, 4);
        it.event_type = rows.text(row, 5);
        if (!rows.is_null(row, 6)) it.key = rows.text(row, 6);
    }
    return all;
}

void WayIn::wait_for(std::size_t wanted) const {
    wait_until(
        std::to_string(wanted) + " messages have arrived", [&] { return count() >= wanted; },
        std::chrono::seconds(120));
}

void WayIn::expect_all() {
    std::set<std::string> missing;
    for (const auto& message : messages_) missing.insert(message.message_id);
    std::set<std::string> seen;
    for (const auto& it : arrived()) {
        EXPECT_TRUE(seen.insert(it.id).second) << "twice: " << it.id;
        EXPECT_EQ(it.error, "") << it.id;
        if (missing.erase(it.id) == 0) ADD_FAILURE() << "phantom: " << it.id;
    }
    EXPECT_TRUE(missing.empty()) << missing.size() << " lost, first of them: " << *missing.begin();
    EXPECT_EQ(fixture_.held(place_), 0U) << "the broker was not told that all has arrived";
}

void WayIn::expect_key_order() const {
    std::map<std::string, std::size_t> last;
    for (const auto& it : arrived()) {
        const std::size_t n = json::parse(it.payload).at("n").get<std::size_t>() + 1;
        EXPECT_GT(n, last[it.key]) << it.id << " of " << it.key << " came too late";
        last[it.key] = n;
    }
}

}  // namespace baton::test
