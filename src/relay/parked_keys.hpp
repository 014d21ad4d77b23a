#pragma once
// Keys of which an event was given up. The source may have given later events of such a key before it knew.
// These events may not be sent, for they would overtake: they are given back and parked too.
//
// A key is forgotten once all its given-up events are settled, and a batch comes that was read later.

#include <cstdint>
#include <string>
#include <string_view>

#include "relay/lanes.hpp"

namespace baton::relay {

class ParkedKeys {
  public:
    bool empty() const { return keys_.empty(); }

    // An event of batch number `work` was given up.
    void gave_up(std::string_view key, std::uint64_t work) {
        Key& parked = keys_[std::string(key)];
        parked.work = work;
        ++parked.unsettled;
    }
    // A given-up event is settled, by call number `park` among the settle() calls with failures.
    void settled(std::string_view key, std::uint64_t park) {
        const auto found = keys_.find(key);
        if (found == keys_.end()) return;
        --found->second.unsettled;
        found->second.park = park;
    }
    // A batch is begun. The source knew of `parks` such calls when it read the batch.
    void heeded(std::uint64_t parks) {
        std::erase_if(keys_, [parks](const auto& entry) {
            return entry.second.unsettled == 0 && entry.second.park <= parks;
        });
    }
    // True when an event of batch number `work` must wait for a given-up event. The others wait for a parked
    // event that is due again; such an event waits only for one of its own batch.
    bool hold_back(std::string_view key, std::uint64_t work, bool due_again) const {
        const auto found = keys_.find(key);
        return found != keys_.end() && (!due_again || found->second.work == work);
    }

  private:
    struct Key {
        std::uint64_t work = 0;     // the latest batch in which an event of the key was given up
        std::size_t unsettled = 0;  // how many given-up events are still to be parked
        std::uint64_t park = 0;     // the latest call that parked an event of the key
    };
    ByName<Key> keys_;
};

}  // namespace baton::relay
