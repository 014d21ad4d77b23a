#include "server/database_pool.hpp"

#include <algorithm>

#include "server/problem.hpp"

namespace baton::server {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::Patience;

namespace {

constexpr auto longest_wait = 2s;
constexpr auto connect_time = 3s;
constexpr auto long_work = 30s;
constexpr auto idle_time = 60s;

}  // namespace

DatabasePool::DatabasePool(std::string db, std::size_t most) : db_(std::move(db)), most_(most) {}

void DatabasePool::set_trouble(const std::string& why) {
    const std::lock_guard lock(mutex_);
    trouble_ = why;
    if (why.empty()) return;
    for (const auto& member : members_) member->patience->end_by(Clock::now());
    changed_.notify_all();
}

void DatabasePool::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& member : members_) member->patience->end_by(Clock::now());
    changed_.notify_all();
}

bool DatabasePool::has_place(bool is_long) const {
    if (is_long && long_works_ + 1 >= std::max<std::size_t>(most_, 2)) return false;
    const auto lent =
        std::count_if(members_.begin(), members_.end(), [](const auto& one) { return one->lent; });
    return static_cast<std::size_t>(lent) < most_;
}

// The connection that was used last; the others may end.
std::shared_ptr<DatabasePool::Member> DatabasePool::take(bool is_long) {
    const auto until = Clock::now() + longest_wait;
    std::unique_lock lock(mutex_);
    const auto refused = [this] { return closed_ || !trouble_.empty(); };
    if (!changed_.wait_until(lock, until, [&] { return refused() || has_place(is_long); }))
        throw Problem(503, "all connections to the database are busy", "try again in a moment");
    if (closed_) throw Problem(503, "the server is stopping", "try again in a moment");
    if (!trouble_.empty())
        throw Problem(503, "the database does not answer: " + trouble_, "try again in a moment");
    const auto now = Clock::now();
    members_.remove_if([now](const auto& one) {
        return !one->lent &&
               (now - one->used_at > idle_time || !one->connection || !one->connection->alive());
    });
    auto best = members_.end();
    for (auto at = members_.begin(); at != members_.end(); ++at)
        if (!(*at)->lent && (best == members_.end() || (*at)->used_at > (*best)->used_at)) best = at;
    if (best == members_.end()) best = members_.insert(members_.end(), std::make_shared<Member>());
    (*best)->lent = true;
    if (!(*best)->patience) (*best)->patience = std::make_shared<Patience>(Patience::long_work);
    if (is_long) ++long_works_;
    return *best;
}

// A connection that broke, or was left in a transaction, ends: nobody else gets it.
void DatabasePool::give_back(const std::shared_ptr<Member>& member, bool is_long) {
    if (member->connection && (!member->connection->alive() || member->connection->in_transaction()))
        member->connection.reset();
    const std::lock_guard lock(mutex_);
    member->lent = false;
    member->used_at = Clock::now();
    member->patience->lasts_until(Clock::time_point::max());
    if (is_long) --long_works_;
    if (!member->connection || member->patience->over()) members_.remove(member);
    changed_.notify_one();
    if (is_long) changed_.notify_all();
}

void DatabasePool::connect(Member& member) {
    if (!member.connection) member.connection.emplace(db_, "baton api", member.patience);
}

DatabasePool::Loan::Loan(DatabasePool& pool, std::chrono::milliseconds limit)
    : pool_(pool), long_(limit > long_work), member_(pool.take(limit > long_work)) {
    const auto until = Clock::now() + limit;
    member_->patience->lasts_until(std::min(until, Clock::now() + connect_time));
    try {
        pool_.connect(*member_);
        member_->patience->lasts_until(until);
    } catch (...) {
        pool_.give_back(member_, long_);
        throw;
    }
}

DatabasePool::Loan::~Loan() {
    pool_.give_back(member_, long_);
}

}  // namespace baton::server
