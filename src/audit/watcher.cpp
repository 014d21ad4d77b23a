#include "audit/watcher.hpp"

#include <utility>

#include "baton/error.hpp"

namespace baton::audit {

using namespace std::chrono_literals;

void Watcher::stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
}

std::size_t Watcher::count() const {
    const std::lock_guard lock(mutex_);
    return count_;
}

std::deque<Clock::time_point> Watcher::take_seen() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
}

void Watcher::note(std::string_view id, Clock::time_point now) {
    const auto index = names_.find(id);
    if (!index) return;
    if (seen_.size() <= *index) seen_.resize(*index + std::size_t{1}, never);
    if (seen_[*index] != never) return;
    seen_[*index] = now;
    ++count_;
}

void Watcher::run(brokers::AuditPlace& destination) {
    while (!stopping_) {
        try {
            auto news = destination.follow(50ms);
            const auto now = Clock::now();
            const std::lock_guard lock(mutex_);
            for (const auto& message : news) note(message.id, now);
        } catch (const std::exception&) {  // the broker is away, perhaps on purpose
            destination.forget();
            std::this_thread::sleep_for(50ms);
        }
    }
    destination.forget();
}

}  // namespace baton::audit
