// A relay's file: whatever is in it, it is read or refused with a SettingsError.

#include "relay/config.hpp"

#include "fuzz.hpp"

using namespace baton;
using fuzz::require;
using relay::Settings;
using relay::SettingsError;

namespace {

template <class Read>
void try_to(const Read& read) {
    try {
        read();
    } catch (const SettingsError&) {
    }
}

// Read every setting as every kind.
void read_all(const Settings& settings) {
    for (const auto& [key, value] : settings.values()) {
        const auto& name = key;
        try_to([&] { settings.number(name, 0); });
        try_to([&] { settings.real(name, 0); });
        try_to([&] { settings.boolean(name, false); });
        try_to([&] { settings.below(name); });
        try_to([&] {
            const auto time = settings.duration(name, std::chrono::milliseconds(0));
            require(time >= std::chrono::milliseconds(0), "a duration is not negative");
            require(
                std::chrono::steady_clock::time_point() + time > std::chrono::steady_clock::time_point() ||
                    time.count() == 0,
                "a duration can be added to a time");
        });
    }
    try_to([&] { settings.refuse_unknown(); });
    require(settings.values() == settings.values(), "settings are the same as themselves");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try_to([&] {
        const auto config = relay::parse_config(fuzz::text_of(data, size), "relay.toml");
        read_all(config.relay);
        read_all(config.log);
        read_all(config.server);
        for (const auto& pipeline : config.pipelines) {
            require(pipeline.has("name"), "a pipeline has a name");
            read_all(pipeline);
        }
    });
    return 0;
}
