#pragma once
// The keys of which an event was given up. What the source gave of such a key before it knew of that may not
// be sent: it would overtake. It is given back to be parked, too.
//
// A key is forgotten once all that was given up of it is settled, and a batch comes that was read after that.

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
    // One that was given up is settled, by settle() call number `park` of those that had failures.
    void settled(std::string_view key, std::uint64_t park) {
        const auto found = keys_.find(key);
        if (found == keys_.end()) return;
        --found->second.unsettled;
        found->second.park = park;
    }
    // A batch is begun that was read when the source knew of so many of those calls.
    void heeded(std::uint64_t parks) {
        std::erase_if(keys_, [parks](const auto& entry) {
            return entry.second.unsettled == 0 && entry.second.park <= parks;
        });
    }
    // Whether an event of batch number `work` must wait for one that was given up. A parked event that is due
    // again is the one that the others wait for, unless it waits for one of its own batch.
    bool hold_back(std::string_view key, std::uint64_t work, bool due_again) const {
        const auto found = keys_.find(key);
        return found != keys_.end() && (!due_again || found->second.work == work);
    }

  private:
    struct Key {
        std::uint64_t work = 0;     // the latest batch in which one of its events was given up
        std::size_t unsettled = 0;  // how many of those are still to be parked
        std::uint64_t park = 0;     // the latest call that parked one
    };
    ByName<Key> keys_;
};

}  // namespace baton::relay
