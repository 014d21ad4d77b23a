#include "relay/supervisor.hpp"

namespace baton::relay {

Supervisor::Supervisor(MakeParts make_parts, Log log)
    : make_parts_(std::move(make_parts)), log_(std::move(log)) {}

Supervisor::~Supervisor() {
    stop();
}

void Supervisor::apply(const std::vector<Settings>& wanted) {
    std::map<std::string, std::pair<const Settings*, std::unique_ptr<Pipeline>>> fresh;
    std::map<std::string, bool> keep;
    for (const auto& settings : wanted) {
        const std::string name = settings.text("name");
        if (!settings.boolean("enabled", true)) continue;
        PipelineParts parts = make_parts_(settings);
        const auto found = running_.find(name);
        if (found != running_.end() && found->second.settings.same_as(settings)) {
            keep[name] = true;
        } else {
            fresh[name] = {&settings, std::make_unique<Pipeline>(std::move(parts))};
        }
    }
    std::vector<std::unique_ptr<Pipeline>> ending;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [name, made] : fresh) coming_.push_back(made.second->status());
        for (auto it = running_.begin(); it != running_.end();) {
            if (keep.contains(it->first)) {
                ++it;
                continue;
            }
            log_(it->first,
                 fresh.contains(it->first) ? "settings changed, restarting" : "no longer wanted, stopping");
            ending.push_back(std::move(it->second.pipeline));
            it = running_.erase(it);
        }
    }
    for (const auto& pipeline : ending) pipeline->request_stop();
    ending.clear();  // waits for each, so that its successor finds the source free
    const std::lock_guard lock(mutex_);
    coming_.clear();
    for (auto& [name, made] : fresh) {
        made.second->start();
        running_[name] = {*made.first, std::move(made.second)};
    }
}

void Supervisor::stop() {
    std::map<std::string, Running> ending;
    {
        const std::lock_guard lock(mutex_);
        ending.swap(running_);
    }
    for (auto& [name, running] : ending) running.pipeline->request_stop();
    for (auto& [name, running] : ending) running.pipeline->join();
}

std::vector<PipelineStatus> Supervisor::status() const {
    const std::lock_guard lock(mutex_);
    std::vector<PipelineStatus> all = coming_;
    for (const auto& [name, running] : running_) all.push_back(running.pipeline->status());
    return all;
}

}  // namespace baton::relay
