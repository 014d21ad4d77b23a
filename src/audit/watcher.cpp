#include "audit/watcher.hpp"

#include "baton/error.hpp"

namespace baton::audit {

using namespace std::chrono_literals;

void Watcher::stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
}

std::size_t Watcher::count() const {
    const std::lock_guard lock(mutex_);
    return seen_.size();
}

std::unordered_map<std::string, Clock::time_point> Watcher::seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
}

void Watcher::run(brokers::AuditPlace& destination) {
    while (!stopping_) {
        try {
            auto news = destination.follow(50ms);
            const auto now = Clock::now();
            const std::lock_guard lock(mutex_);
            for (auto& message : news) seen_.try_emplace(std::move(message.id), now);
        } catch (const std::exception&) {  // the broker is away, perhaps on purpose
            destination.forget();
            std::this_thread::sleep_for(50ms);
        }
    }
    destination.forget();
}

}  // namespace baton::audit
