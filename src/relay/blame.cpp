#include "relay/blame.hpp"

#include <utility>

namespace baton::relay {

const char* name_of(Fault fault) {
    constexpr const char* names[] = {"moment", "destination", "event"};
    return names[static_cast<std::size_t>(fault)];
}

std::string Streak::words() const {
    return std::to_string(count_) +
           " events in a row could not be delivered; none is given up any more until one is delivered or the "
           "pipeline is started anew: " +
           why_;
}

Ruling Blame::judge(Record& record, Fault fault, bool first) {
    // How often it was tried before the sink was back says nothing about how long it should wait now.
    if (std::exchange(record.outage, outages_) != outages_) record.tries = 1;
    const bool others_went = std::exchange(record.progress, progress_) != progress_ && first;
    if (others_went) ++record.attempts;
    if (!rules_.keeps_trying) {
        if (fault == Fault::event) return unless_stopped(Ruling::bury);
        if (record.attempts >= rules_.attempts) return unless_stopped(Ruling::park);
        if (!others_went && fault == Fault::moment && record.tries >= rules_.attempts)
            return Ruling::ask_sink;
    }
    return others_went ? Ruling::wait : Ruling::await_sink;
}

}  // namespace baton::relay
