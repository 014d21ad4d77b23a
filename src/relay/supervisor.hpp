#pragma once
// Keeps the pipelines that are wanted running: starts new ones, stops those that are gone, and exchanges
// those whose settings changed, or a secret that the settings name, without touching the others.

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

    // Make it so that exactly these run. When one of them cannot be, throws SettingsError and changes
    // nothing.
    void apply(const std::vector<Settings>& wanted);
    // Whether a secret that a running pipeline was made with is another one now: apply() would exchange that
    // pipeline. A secret that cannot be read is no change.
    bool secrets_changed() const;
    // Drain and stop all; returns when they have ended.
    void stop();

    std::vector<PipelineStatus> status() const;

  private:
    struct Running {
        Settings settings;
        std::map<std::string, Settings::Value> resolved;  // as they were when it was made
        std::unique_ptr<Pipeline> pipeline;
    };

    MakeParts make_parts_;
    Log log_;
    mutable std::mutex mutex_;
    std::map<std::string, Running> running_;
    std::vector<PipelineStatus> coming_;  // those that wait for their predecessors to end
};

}  // namespace baton::relay
