#include "isolation/group_model.hpp"

#include <algorithm>

namespace baton::test {

void LogModel::wrote(long id, const std::string& key, long step) {
    // After a crash an id is drawn again that a transaction had which was not to be.
    if (const auto before = events_.find(id); before != events_.end())
        std::erase(by_key_[before->second.key], id);
    events_[id] = {id, key, step, -1};
    by_key_[key].push_back(id);
}

void LogModel::committed(long id, long step) {
    events_.at(id).committed = step;
}

const LogModel::Event* LogModel::find(long id) const {
    const auto found = events_.find(id);
    return found == events_.end() ? nullptr : &found->second;
}

std::vector<long> LogModel::committed_ids() const {
    std::vector<long> ids;
    for (const auto& [id, event] : events_)
        if (event.committed >= 0) ids.push_back(id);
    return ids;
}

std::vector<long> LogModel::before(const Event& event) const {
    std::vector<long> ids;
    for (const long id : by_key_.at(event.key)) {
        const Event& other = events_.at(id);
        const bool earlier_in_its_transaction = other.committed == event.committed && other.id < event.id;
        if (other.committed >= 0 && id != event.id &&
            (other.committed < event.written || earlier_in_its_transaction))
            ids.push_back(id);
    }
    return ids;
}

GroupModel::GroupModel(const LogModel& log, std::string name, bool ordered, int max_attempts)
    : log_(log), name_(std::move(name)), ordered_(ordered), max_attempts_(max_attempts) {}

void GroupModel::fault(const std::string& what) const {
    throw Fault("group " + name_ + ": " + what);
}

GroupModel::State GroupModel::state(long id) const {
    const auto found = status_.find(id);
    return found == status_.end() ? State::waiting : found->second.state;
}

void GroupModel::end(Lease& lease) {
    for (const long id : lease.held) status_[id].state = State::waiting;
    lease.held.clear();
    lease.life = Life::over;
}

void GroupModel::check_order(const LogModel::Event& event, const std::string& token) const {
    for (const long earlier : log_.before(event)) {
        const auto found = status_.find(earlier);
        const State state = found == status_.end() ? State::waiting : found->second.state;
        if (state == State::settled || state == State::dead || state == State::lost_sight_of) continue;
        if (state == State::leased && found->second.token == token) continue;
        fault("event " + std::to_string(event.id) + " was given although " + std::to_string(earlier) +
              " of key " + event.key + " comes first");
    }
}

void GroupModel::given(const std::string& consumer, const std::string& token, const std::vector<long>& ids) {
    if (ids.empty()) return;
    if (leases_.contains(token)) fault("a token was given twice");
    // Whatever is given again ends the lease that held it: as a whole, so before anything else is judged.
    for (const long id : ids) {
        const Status& status = status_[id];
        if (status.state != State::leased) continue;
        Lease& lease = leases_.at(status.token);
        if (lease.life == Life::alive)
            fault("event " + std::to_string(id) + " was given although \"" + lease.consumer + "\" holds it");
        end(lease);
    }
    leases_[token] = {consumer, {}, Life::alive};
    for (const long id : ids) {
        const auto* event = log_.find(id);
        if (event == nullptr || event->committed < 0)
            fault("event " + std::to_string(id) + " was given although it is not committed");
        Status& status = status_[id];
        if (status.state == State::settled)
            fault("event " + std::to_string(id) + " was given although it is settled");
        if (status.state == State::dead)
            fault("event " + std::to_string(id) + " was given although it is dead");
        if (status.state == State::leased) fault("event " + std::to_string(id) + " came twice in one batch");
        if (ordered_) check_order(*event, token);
        status.state = State::leased;
        status.token = token;
        ++status.given;
        leases_[token].held.push_back(id);
    }
}

std::string GroupModel::lease_of(const std::string& consumer, long id) const {
    const auto found = status_.find(id);
    if (found == status_.end() || found->second.state != State::leased) return "";
    return leases_.at(found->second.token).consumer == consumer ? found->second.token : "";
}

void GroupModel::settle(Lease& lease, const std::vector<long>& ids) {
    for (const long id : ids) {
        status_[id].state = State::settled;
        std::erase(lease.held, id);
    }
}

void GroupModel::commit(const std::string& token, long id, Answer answer) {
    const auto found = leases_.find(token);
    const bool holds = found != leases_.end() && std::ranges::count(found->second.held, id) > 0;
    if (answer == Answer::done) {
        if (!holds)
            fault("a commit of event " + std::to_string(id) + " was taken from one who does not hold it");
        const auto upto = std::ranges::find(found->second.held, id);
        settle(found->second, std::vector<long>(found->second.held.begin(), upto + 1));
        return;
    }
    const auto* event = log_.find(id);
    const bool is_there = event != nullptr && event->committed >= 0;
    if (answer == Answer::settled_before && is_there && state(id) != State::settled &&
        state(id) != State::lost_sight_of)
        fault("event " + std::to_string(id) + " is called settled and is not");
    if (!holds) return;
    if (found->second.life == Life::alive)
        fault("a commit by the holder of event " + std::to_string(id) + " was refused");
    end(found->second);
}

void GroupModel::commit_only(const std::string& token, const std::vector<long>& ids, Answer answer) {
    const auto found = leases_.find(token);
    const bool holds = found != leases_.end() && std::ranges::all_of(ids, [&](long id) {
                           return std::ranges::count(found->second.held, id) > 0;
                       });
    if (answer == Answer::done) {
        if (!holds) fault("a commit of events was taken from one who does not hold all of them");
        settle(found->second, ids);
    } else if (holds) {
        if (found->second.life == Life::alive) fault("a commit of events by their holder was refused");
        end(found->second);
    }
}

void GroupModel::failed(const std::string& token, const std::vector<std::pair<long, std::string>>& parked,
                        Answer answer) {
    const auto found = leases_.find(token);
    if (answer != Answer::done) {
        if (found != leases_.end() && found->second.life == Life::alive && !found->second.held.empty())
            fault("the holder could not fail an event");
        if (found != leases_.end()) end(found->second);
        return;
    }
    for (const auto& [id, state] : parked) {
        Status& status = status_[id];
        if (status.state == State::settled)
            fault("event " + std::to_string(id) + " was parked although it is settled");
        if (status.state == State::leased) std::erase(leases_.at(status.token).held, id);
        status.state = state == "dead" ? State::dead : State::parked;
    }
}

void GroupModel::extended(const std::string& token, Answer answer) {
    Lease& lease = leases_.at(token);
    if (answer == Answer::done) {
        if (lease.life == Life::over) fault("a lease that was lost could be extended");
        lease.life = Life::alive;
    } else {
        if (lease.life == Life::alive && !lease.held.empty()) fault("a living lease could not be extended");
        end(lease);
    }
}

void GroupModel::released(const std::string& token) {
    end(leases_.at(token));
}

void GroupModel::ran_out(const std::string& token) {
    Lease& lease = leases_.at(token);
    if (lease.life == Life::alive) lease.life = Life::overdue;
}

void GroupModel::dead(const std::set<long>& ids) {
    for (const long id : ids) {
        Status& status = status_[id];
        if (status.state == State::dead) continue;
        if (status.state == State::settled)
            fault("event " + std::to_string(id) + " is dead although it was settled");
        if (status.given < max_attempts_)
            fault("event " + std::to_string(id) + " is dead after " + std::to_string(status.given) +
                  " attempts");
        if (status.state == State::leased) {
            Lease& lease = leases_.at(status.token);
            if (lease.life == Life::alive)
                fault("event " + std::to_string(id) + " died in the hands of its holder");
            end(lease);
        }
        status.state = State::dead;
    }
    for (const auto& [id, status] : status_)
        if (status.state == State::dead && !ids.contains(id))
            fault("dead event " + std::to_string(id) + " is gone");
}

void GroupModel::replayed(long id) {
    status_[id].state = State::parked;
    status_[id].given = 0;
}

void GroupModel::discarded(long id) {
    status_[id].state = State::settled;
}

bool GroupModel::may_be_parked(long id) const {
    const auto found = status_.find(id);
    if (found == status_.end()) return false;
    const Status& status = found->second;
    if (status.state == State::settled || status.state == State::dead) return false;
    return status.state == State::parked || status.state == State::lost_sight_of || status.set_aside ||
           status.given > 0;  // a suspect, or one that failed before
}

bool GroupModel::follows_parked(long id) const {
    return ordered_ && std::ranges::any_of(log_.of_key(log_.find(id)->key),
                                           [&](long other) { return other < id && may_be_parked(other); });
}

void GroupModel::polled() {
    for (const long id : log_.committed_ids())
        if (state(id) == State::waiting && follows_parked(id)) status_[id].set_aside = true;
}

void GroupModel::sought(long after_id, bool to_end, bool some_may_be_gone) {
    for (auto& [token, lease] : leases_) {
        for (const long id :
             lease.held)  // behind the place only what was leased while it was parked comes again
            status_[id].state = to_end || id <= after_id ? State::lost_sight_of : State::waiting;
        lease.held.clear();
        lease.life = Life::over;
    }
    for (const long id : log_.committed_ids()) {
        Status& status = status_[id];
        if (status.state == State::dead) continue;
        if (to_end || id <= after_id) {
            // a poll may have parked it, behind one of its key or as a suspect, and what is parked stays
            if (status.state == State::waiting)
                status.state =
                    may_be_parked(id) || follows_parked(id) ? State::lost_sight_of : State::settled;
        } else {
            const bool was_done = status.state == State::settled || status.state == State::lost_sight_of;
            status.state = some_may_be_gone && was_done ? State::lost_sight_of : State::waiting;
        }
    }
}

std::vector<long> GroupModel::unsettled() const {
    std::vector<long> ids;
    for (const long id : log_.committed_ids()) {
        const State now = state(id);
        if (now != State::settled && now != State::dead && now != State::lost_sight_of) ids.push_back(id);
    }
    return ids;
}

}  // namespace baton::test
