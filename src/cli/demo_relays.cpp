#include "cli/demo_relays.hpp"

namespace baton::cli {

void DemoRelays::start() {
    begin("demo_file", "shop.events", {{"sink.type", "file"}, {"sink.path", files_.events.string()}},
          [this](const Event& event) {
              filed.note(event.id);
              ++filed_count;
          });
    begin("demo_inbox", "shop.events",
          {{"sink.type", "postgres"}, {"sink.url", identity_.db}, {"sink.inbox", "shop.accounting"}},
          [this](const Event& event) {
              received.note(event.id);
              ++received_count;
          });
    begin("demo_revenue", "shop.outbox_revenue",
          {{"sink.type", "file"}, {"sink.path", files_.revenue.string()}},
          [this](const Event&) { ++delta_count; });
}

void DemoRelays::start_parcels(const std::string& url) {
    begin("demo_parcels", "shop.parcels",
          {{"sink.type", "http"},
           {"sink.url", url},
           {"sink.allow_private", true},
           {"failure.attempts", std::int64_t{1}},
           {"failure.max_attempts", std::int64_t{1}}},
          [](const Event&) {});
}

void DemoRelays::stop() {
    const std::lock_guard lock(mutex_);
    for (auto& pipeline : pipelines_) pipeline->request_stop();
    pipelines_.clear();
}

std::string DemoRelays::trouble() const {
    for (const auto& status : statuses()) {
        if (status.state == relay::PipelineState::retrying || status.state == relay::PipelineState::halted)
            return status.name + ": " + status.detail;
        if (!status.trouble.empty()) return status.name + ": " + status.trouble;
    }
    return {};
}

std::vector<relay::PipelineStatus> DemoRelays::statuses() const {
    const std::lock_guard lock(mutex_);
    std::vector<relay::PipelineStatus> all;
    for (const auto& pipeline : pipelines_) all.push_back(pipeline->status());
    return all;
}

void DemoRelays::begin(const std::string& name, const std::string& outbox, const Words& more,
                       relay::Dispatcher::OnDelivered on_delivered) {
    relay::Settings settings("pipeline " + name);
    settings.set("name", name);
    settings.set("source.outbox", outbox);
    for (const auto& [key, value] : more) settings.set(key, value);
    auto parts = assembly::make_parts(settings, identity_);
    parts.on_delivered = std::move(on_delivered);
    auto pipeline = std::make_unique<relay::Pipeline>(std::move(parts));
    pipeline->start();
    const std::lock_guard lock(mutex_);
    pipelines_.push_back(std::move(pipeline));
}

}  // namespace baton::cli
