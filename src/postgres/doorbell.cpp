#include "postgres/doorbell.hpp"

#include <algorithm>

namespace baton::postgres {

using namespace std::chrono_literals;

namespace {

// A call waits in the server for half a minute; one that is not back long after was lost with its connection.
constexpr auto longest_call = 90s;

// Waits in the server, on a value that changes with every commit.
class Bell final : public Doorbell {
  public:
    Bell(const std::string& conninfo, std::string outbox, std::shared_ptr<const Patience> patience,
         milliseconds safety_look)
        : db_(conninfo, "baton waiting", std::move(patience)),
          outbox_(std::move(outbox)),
          safety_look_(safety_look) {
        value_ = db_.value("select baton.doorbell_value($1)", {outbox_});
    }

    milliseconds arm() override {
        const auto now = std::chrono::steady_clock::now();
        if (calling_ && now > called_at_ + longest_call)
            throw ConnectionError("the server does not answer on the connection that waits for events");
        if (!calling_) {
            const char* values[] = {outbox_.c_str(), value_.c_str()};
            if (PQsendQueryParams(db_.native(), "call baton.wait_for_events($1, $2, '30 s')", 2, nullptr,
                                  values, nullptr, nullptr, 0) != 1)
                throw ConnectionError(PQerrorMessage(db_.native()));
            calling_ = true;
            called_at_ = now;
        }
        return safety_look_;
    }

    int wakeup() const override { return PQsocket(db_.native()); }

    bool rung() override {
        if (PQconsumeInput(db_.native()) == 0) throw ConnectionError(PQerrorMessage(db_.native()));
        bool ended = false;
        while (calling_ && PQisBusy(db_.native()) == 0) {
            PGresult* raw = PQgetResult(db_.native());
            if (raw == nullptr) {
                calling_ = false;
            } else {
                value_ = db_.check(raw).text(0, 0);
                ended = true;
            }
        }
        return ended;
    }

  private:
    Connection db_;
    std::string outbox_;
    const milliseconds safety_look_;
    std::string value_;  // as it was before the last look
    bool calling_ = false;
    std::chrono::steady_clock::time_point called_at_{};
};

// Announces its sleep, so that writers notify; sql/doorbell_plain.sql has the protocol. A notification takes
// a lock over all commits, and an announcement is a write. So who is woken often stays awake and polls, and
// who is woken now and then stays announced: it has seen what was there when it looked, and hears of all that
// comes.
class Notified final : public Doorbell {
  public:
    Notified(const std::string& conninfo, std::string outbox, std::string reader,
             std::shared_ptr<const Patience> patience, milliseconds safety_look)
        : db_(conninfo, "baton waiting", std::move(patience)),
          outbox_(std::move(outbox)),
          reader_(std::move(reader)),
          safety_look_(safety_look) {
        db_.exec("listen " +
                 db_.escape_identifier(db_.value("select baton.doorbell_channel($1::regclass)", {outbox_})));
    }

    milliseconds arm() override {
        const auto now = std::chrono::steady_clock::now();
        if (state_ == State::awake && now < found_at_ + patience_of_the_busy) return nap_of_the_busy;
        if (state_ == State::awake || now > announced_at_ + 60s) {
            db_.query("select baton.announce_sleep($1, $2)", {outbox_, reader_});
            announced_at_ = now;
            state_ = State::announced;
        }
        if (state_ == State::announced) {
            if (db_.value("select baton.sleep_settled($1)", {outbox_}) != "t") return 5ms;
            state_ = State::settled;
            return 0ms;  // look once more
        }
        state_ = State::asleep;
        return safety_look_;
    }

    void found() override {
        const auto now = std::chrono::steady_clock::now();
        const bool often = now < found_at_ + often_is;
        times_often_ = often ? times_often_ + 1 : 0;
        found_at_ = now;
        if (state_ == State::awake || times_often_ < busy_after) return;
        db_.query("select baton.end_sleep($1, $2)", {outbox_, reader_});
        state_ = State::awake;
    }

    int wakeup() const override { return PQsocket(db_.native()); }
    bool rung() override { return !db_.take_notifications().empty(); }

  private:
    enum class State { awake, announced, settled, asleep };
    using Time = std::chrono::steady_clock::time_point;

    static constexpr auto often_is = 20ms;              // between two finds
    static constexpr int busy_after = 4;                // finds of which each came so soon
    static constexpr auto nap_of_the_busy = 4ms;        // between two looks
    static constexpr auto patience_of_the_busy = 60ms;  // without a find, before it goes to sleep

    Connection db_;
    std::string outbox_;
    std::string reader_;
    const milliseconds safety_look_;
    State state_ = State::awake;
    Time announced_at_{};
    Time found_at_{};
    int times_often_ = 0;
};

// Looks again and again, less often the longer nothing comes.
class Polling final : public Doorbell {
  public:
    milliseconds arm() override {
        nap_ = std::min<milliseconds>(nap_ * 2, 100ms);
        return nap_;
    }
    void found() override { nap_ = 1ms; }

  private:
    milliseconds nap_{1};
};

}  // namespace

bool is_pooled(Connection& connection) {
    return connection.value("select pg_backend_pid()") != std::to_string(connection.backend_pid());
}

std::unique_ptr<Doorbell> make_doorbell(const std::string& conninfo, const std::string& outbox,
                                        const std::string& reader, std::string kind,
                                        std::shared_ptr<const Patience> patience,
                                        std::chrono::milliseconds safety_look) {
    if (kind == "auto") {
        Connection db(conninfo, "baton", patience);
        kind = is_pooled(db) ? "poll" : db.value("select baton.doorbell_kind()");
    }
    if (kind == "bell") return std::make_unique<Bell>(conninfo, outbox, std::move(patience), safety_look);
    if (kind == "notify")
        return std::make_unique<Notified>(conninfo, outbox, reader, std::move(patience), safety_look);
    return std::make_unique<Polling>();
}

}  // namespace baton::postgres
