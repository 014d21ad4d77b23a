#include "client/lease_keeper.hpp"

namespace baton::client {

LeaseKeeper::LeaseKeeper(const Queue& queue, std::string conninfo, std::chrono::milliseconds every,
                         Trouble trouble)
    : queue_(queue), conninfo_(std::move(conninfo)), every_(every), trouble_(std::move(trouble)) {}

LeaseKeeper::~LeaseKeeper() = default;

void LeaseKeeper::hold(std::string token, std::span<const Delivery> deliveries) {
    const std::lock_guard lock(mutex_);
    token_ = std::move(token);
    ids_.clear();
    for (const auto& delivery : deliveries) ids_.push_back(delivery.id);
    held_ = true;
    ++turn_;
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
    changed_.notify_all();
}

void LeaseKeeper::let_go() {
    std::unique_lock lock(mutex_);
    held_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !extending_; });
}

void LeaseKeeper::keep(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return held_; })) {
        const auto turn = turn_;
        const bool over = changed_.wait_for(lock, stop, every_, [&] { return !held_ || turn_ != turn; });
        if (!over && !stop.stop_requested()) extend(lock);
    }
}

void LeaseKeeper::extend(std::unique_lock<std::mutex>& lock) {
    const std::string token = token_;
    const auto ids = ids_;
    const auto turn = turn_;
    extending_ = true;
    lock.unlock();
    bool lost = false;
    try {
        // The settling waits for this, so it must not last: there is time for another try.
        if (!db_)
            db_ = std::make_unique<postgres::Connection>(conninfo_, "baton lease",
                                                         std::make_shared<postgres::Patience>(every_));
        queue_.extend(*db_, token, ids);
    } catch (const LeaseLost&) {
        lost = true;
    } catch (const std::exception& error) {  // the lease holds for a while: try again at the next turn
        db_.reset();
        trouble_(error.what());
    }
    lock.lock();
    extending_ = false;
    if (lost && turn == turn_) held_ = false;
    changed_.notify_all();
}

}  // namespace baton::client
