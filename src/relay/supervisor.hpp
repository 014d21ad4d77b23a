#pragma once
// Keeps the wanted pipelines running. It starts new pipelines, stops pipelines that are not wanted any more,
// and exchanges a pipeline when its settings changed, or a secret that the settings name. Other pipelines run
// on.

#include <map>
#include <memory>

#include "relay/pipeline.hpp"
#include "relay/settings.hpp"

namespace baton::relay {

class Supervisor {
  public:
    // Make a pipeline's parts; throws SettingsError.
    using MakeParts = std::function<PipelineParts(const Settings&)>;
    using Log = std::function<void(const std::string& pipeline, const std::string& what)>;

    Supervisor(MakeParts make_parts, Log log);
    ~Supervisor();

    // Run exactly these pipelines. When one of them cannot be made, throws SettingsError and changes nothing.
    void apply(const std::vector<Settings>& wanted);
    // True when a secret of a running pipeline has changed: apply() would exchange the pipeline. A secret
    // that cannot be read is no change.
    bool secrets_changed() const;
    // Drain and stop all pipelines. Returns when they have ended.
    void stop();

    std::vector<PipelineStatus> status() const;

  private:
    struct Running {
        Settings settings;
        std::map<std::string, Settings::Value> resolved;  // the settings with which the pipeline was made
        std::unique_ptr<Pipeline> pipeline;
    };

    MakeParts make_parts_;
    Log log_;
    mutable std::mutex mutex_;
    std::map<std::string, Running> running_;
    std::vector<PipelineStatus> coming_;  // pipelines that wait for their predecessors to end
};

}  // namespace baton::relay
