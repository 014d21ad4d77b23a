#include "chaos/stands.hpp"

#include <thread>

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

// tests/chaos/CMakeLists.txt writes the list: STAND(name) for each broker whose folder has tests/stand.cpp.
#define STAND(name) void add_##name##_stands(StandMakers& makers);
#include "chaos/stands.inc"
#undef STAND

namespace {

const StandMakers& makers() {
    static const StandMakers all = [] {
        StandMakers made;
#define STAND(name) add_##name##_stands(made);
#include "chaos/stands.inc"
#undef STAND
        return made;
    }();
    return all;
}

// What can be done to the way to the broker.
void add_faults_of(Proxy& proxy, std::vector<Fault>& faults) {
    faults.push_back({"connections to the broker cut", [&proxy](Relays&) { proxy.cut(); }});
    faults.push_back({"broker half-open for 4 s", [&proxy](Relays&) {
                          proxy.swallow(Proxy::Swallow::everything);
                          std::this_thread::sleep_for(4s);
                          proxy.heal();
                      }});
    faults.push_back({"the broker's answers lost for 2 s", [&proxy](Relays&) {
                          proxy.swallow(Proxy::Swallow::answers);
                          std::this_thread::sleep_for(2s);
                          proxy.heal();
                      }});
}

}  // namespace

const std::vector<std::string>& stand_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const auto& [name, maker] : makers()) all.push_back(name);
        return all;
    }();
    return names;
}

std::unique_ptr<Stand> make_stand(const std::string& name) {
    const auto found = makers().find(name);
    if (found == makers().end()) throw UsageError("there is no stand \"" + name + "\"");
    return found->second();
}

std::vector<Fault> broker_faults(Stand& stand, Way way) {
    std::vector<Fault> faults;
    if (stand.has_server())
        faults.push_back({"broker killed and restarted", [&stand](Relays&) {
                              stand.kill_server();
                              std::this_thread::sleep_for(500ms);
                              stand.start_server();
                          }});
    if (stand.proxy() != nullptr) add_faults_of(*stand.proxy(), faults);
    for (auto& fault : stand.own_faults(way)) faults.push_back(std::move(fault));
    return faults;
}

}  // namespace baton::test
