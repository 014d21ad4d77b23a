#pragma once
// A small model of an outbox and its consumer groups: who may hold what. A driver takes random steps on a
// real server and tells the model what it did and what the server said; whatever the model does not allow is
// a fault.
//
//   state of an event   who may be given it
//   waiting             anybody, once whatever precedes it in its key is settled, dead, or ahead of it in the
//   same lease leased              nobody while the lease lives parked              as waiting, at a later
//   time dead                nobody, until somebody replays it settled             nobody, unless the group
//   is sought lost sight of       anybody or nobody: the group was sought to a place that retention may have
//   taken away
//
//   state of a lease    what its holder may do
//   alive               everything
//   overdue             everything or nothing: any poll of the group may have ended it as a whole
//   over                nothing

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace baton::test {

// What the server did and the model does not allow.
struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// What the writers did.
class LogModel {
  public:
    struct Event {
        long id = 0;
        std::string key;
        long written = 0;     // the step
        long committed = -1;  // the step, or -1
    };

    void wrote(long id, const std::string& key, long step);
    void committed(long id, long step);
    const Event* find(long id) const;
    std::vector<long> committed_ids() const;
    // The committed events of the same key whose transactions this event's could see.
    std::vector<long> before(const Event& event) const;
    const std::vector<long>& of_key(const std::string& key) const { return by_key_.at(key); }

  private:
    std::map<long, Event> events_;
    std::map<std::string, std::vector<long>> by_key_;
};

class GroupModel {
  public:
    enum class State { waiting, leased, parked, dead, settled, lost_sight_of };
    enum class Life { alive, overdue, over };
    struct Lease {
        std::string consumer;
        std::vector<long> held;  // in delivery order
        Life life = Life::alive;
    };

    GroupModel(const LogModel& log, std::string name, bool ordered, int max_attempts);

    const std::string& name() const { return name_; }
    const std::map<std::string, Lease>& leases() const { return leases_; }
    State state(long id) const;

    // Somebody polled: without a word it may have parked what follows a parked event of its key.
    void polled();
    // A poll gave these, in this order.
    void given(const std::string& consumer, const std::string& token, const std::vector<long>& ids);
    // The lease that a commit of this id without a token means, or none.
    std::string lease_of(const std::string& consumer, long id) const;
    // A commit up to and including this id. The token names a lease, or nothing that ever was one.
    enum class Answer { done, settled_before, refused };
    void commit(const std::string& token, long id, Answer answer);
    // A commit of exactly these events.
    void commit_only(const std::string& token, const std::vector<long>& ids, Answer answer);
    // The server parked these, because one of them was failed.
    void failed(const std::string& token, const std::vector<std::pair<long, std::string>>& parked,
                Answer answer);
    void extended(const std::string& token, Answer answer);
    void released(const std::string& token);
    void ran_out(const std::string& token);
    // The dead letters, as the server lists them.
    void dead(const std::set<long>& ids);
    void replayed(long id);
    void discarded(long id);
    // The group was put behind this id; whatever retention has taken cannot come again.
    void sought(long after_id, bool to_end, bool some_may_be_gone);

    // Committed events that are neither settled nor dead.
    std::vector<long> unsettled() const;

  private:
    struct Status {
        State state = State::waiting;
        std::string token;
        int given = 0;           // how often
        bool set_aside = false;  // a poll may have parked it
    };
    void end(Lease& lease);
    void settle(Lease& lease, const std::vector<long>& ids);
    bool may_be_parked(long id) const;
    bool follows_parked(long id) const;
    [[noreturn]] void fault(const std::string& what) const;
    void check_order(const LogModel::Event& event, const std::string& token) const;

    const LogModel& log_;
    std::string name_;
    bool ordered_;
    int max_attempts_;
    std::map<long, Status> status_;
    std::map<std::string, Lease> leases_;
};

}  // namespace baton::test
