#pragma once
// The connections with which requests are answered: never more than a given number.
//
// Nobody waits long for a connection, and nobody waits for a database that does not answer: whoever watches
// the database says so here, and then every wait ends at once. An operation that may take long never has the
// last connection.

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "postgres/connection.hpp"

namespace baton::server {

class DatabasePool {
  public:
    using Clock = std::chrono::steady_clock;

    DatabasePool(std::string db, std::size_t most);
    ~DatabasePool() { close(); }
    DatabasePool(const DatabasePool&) = delete;
    DatabasePool& operator=(const DatabasePool&) = delete;

    // Run `work` with a connection. It gets at most `limit`, connecting included. Throws Problem 503 when no
    // connection is free in time or the database is known not to answer.
    template <class Work>
    auto with(std::chrono::milliseconds limit, const Work& work) {
        Loan loan(*this, limit);
        return work(loan.connection());
    }

    // From now on the database does not answer, for this reason: end what is under way. Empty: it does.
    void set_trouble(const std::string& why);
    // End what is under way; nothing else begins.
    void close();

  private:
    struct Member {
        std::shared_ptr<postgres::Patience> patience;
        std::optional<postgres::Connection> connection;
        Clock::time_point used_at{};
        bool lent = false;
    };
    class Loan {
      public:
        Loan(DatabasePool& pool, std::chrono::milliseconds limit);
        ~Loan();
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;
        postgres::Connection& connection() { return *member_->connection; }

      private:
        DatabasePool& pool_;
        const bool long_;
        std::shared_ptr<Member> member_;
    };

    bool has_place(bool long_work) const;
    std::shared_ptr<Member> take(bool long_work);
    void give_back(const std::shared_ptr<Member>& member, bool long_work);
    void connect(Member& member);

    const std::string db_;
    const std::size_t most_;

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::list<std::shared_ptr<Member>> members_;
    std::size_t long_works_ = 0;
    std::string trouble_;
    bool closed_ = false;
};

}  // namespace baton::server
