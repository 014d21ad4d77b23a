#include "relay/supervisor.hpp"

#include <algorithm>

namespace baton::relay {

Supervisor::Supervisor(MakeParts make_parts, Log log)
    : make_parts_(std::move(make_parts)), log_(std::move(log)) {}

Supervisor::~Supervisor() {
    stop();
}

void Supervisor::apply(const std::vector<Settings>& wanted) {
    std::map<std::string, Running> fresh;
    std::map<std::string, bool> keep;
    for (const auto& settings : wanted) {
        const std::string name = settings.text("name");
        if (!settings.boolean("enabled", true)) continue;
        auto resolved = settings.resolved();  // first: a change in between is seen by the next look
        PipelineParts parts = make_parts_(settings);
        const auto found = running_.find(name);
        if (found != running_.end() && found->second.resolved == resolved) {
            keep[name] = true;
        } else {
            fresh[name] = {settings, std::move(resolved), std::make_unique<Pipeline>(std::move(parts))};
        }
    }
    std::vector<std::unique_ptr<Pipeline>> ending;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [name, made] : fresh) coming_.push_back(made.pipeline->status());
        for (auto at = running_.begin(); at != running_.end();) {
            if (keep.contains(at->first)) {
                ++at;
                continue;
            }
            const auto successor = fresh.find(at->first);
            log_(at->first, successor == fresh.end() ? "no longer wanted, stopping"
                            : successor->second.settings.values() == at->second.settings.values()
                                ? "a secret changed, restarting"
                                : "settings changed, restarting");
            ending.push_back(std::move(at->second.pipeline));
            at = running_.erase(at);
        }
    }
    for (const auto& pipeline : ending) pipeline->request_stop();
    ending.clear();  // waits for each, so that its successor finds the source free
    const std::lock_guard lock(mutex_);
    coming_.clear();
    for (auto& [name, made] : fresh) {
        made.pipeline->start();
        running_[name] = std::move(made);
    }
}

bool Supervisor::secrets_changed() const {
    const std::lock_guard lock(mutex_);
    return std::any_of(running_.begin(), running_.end(), [](const auto& entry) {
        try {
            return entry.second.settings.resolved() != entry.second.resolved;
        } catch (const SettingsError&) {
            return false;
        }
    });
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
