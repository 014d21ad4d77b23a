#pragma once
// Who may do what. A program shows a token with each request; the page exchanges a token for a session.
//
//   Authorization: Bearer TOKEN      a program
//   Cookie: baton_session=...        the page; changes need the header X-Baton-CSRF too
//   neither                          may look, when the server listens on loopback only and was asked by a
//                                    loopback name (a name that another site chose could lead here)
//
// Tokens and sessions are kept as digests and compared in constant time. Who guesses is made to wait.

#include <httplib.h>

#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operations/operation.hpp"

namespace baton::server {

// Where a token comes from: a file, or a variable of the environment.
struct TokenSource {
    std::string name;  // who has it
    operations::Right right = operations::Right::operate;
    std::string file = {};
    std::string variable = {};
};

// BATON_API_TOKEN and BATON_API_VIEW_TOKEN, where they are set.
std::vector<TokenSource> token_sources_of_environment();

using Digest = std::array<unsigned char, 32>;

struct TokenHolder {
    std::string name;
    operations::Right right;
    Digest digest;
};

// Read tokens. A line of the list is a token, or a name, a role and a token. Throws UsageError when one is
// missing, too short, or has a name that another has.
std::vector<TokenHolder> read_tokens(const std::vector<TokenSource>& sources, const std::string& list_file);

// Who asks.
struct Visitor {
    std::string name;                        // empty: nobody said
    std::optional<operations::Right> right;  // none: may do nothing
    bool by_session = false;
    std::string csrf;  // of the session

    bool may(operations::Right wanted) const {
        return right && (*right == operations::Right::operate || wanted == operations::Right::view);
    }
    // For the audit trail.
    std::string in_words() const {
        return (name.empty() ? "somebody" : name) + (by_session ? " by dashboard" : " by api");
    }
};

// Wrong tokens by the address they came from: after some there is a pause.
class Attempts {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr int most = 10;
    static constexpr std::chrono::seconds pause{6};  // after which one more is allowed

    bool allowed(const std::string& address, Clock::time_point now = Clock::now());
    void note_failure(const std::string& address, Clock::time_point now = Clock::now());

  private:
    struct Failures {
        double count = 0;
        Clock::time_point at{};
    };
    double count_now(const Failures& failures, Clock::time_point now) const;

    std::map<std::string, Failures> failures_;
};

class Access {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t most_sessions = 256;
    static constexpr std::chrono::hours session_time{12};

    // Told of every wrong token: the address that it came from. It must not take long.
    using OnWrongToken = std::function<void(const std::string& address)>;

    // `loopback`: the server listens on loopback only. Throws UsageError like read_tokens().
    Access(std::vector<TokenSource> sources, std::string list_file, bool loopback,
           OnWrongToken on_wrong_token = {});

    // Take other tokens; sessions of tokens that are gone end. Throws UsageError and leaves everything as it
    // was.
    void replace(std::vector<TokenSource> sources, const std::string& list_file);
    bool has_tokens();

    // Find out who asks. Throws Problem: 400, 401, 403, 429.
    Visitor meet(const httplib::Request& request);
    // Throws Problem when the visitor may not: 401, 403.
    void check(const Visitor& visitor, operations::Right wanted, const httplib::Request& request);
    // Throws Problem 403 when a change by a session lacks what only its own page knows.
    static void check_csrf(const Visitor& visitor, const httplib::Request& request);

    struct Opened {
        std::string secret;  // for the cookie
        Visitor visitor;
    };
    // Exchange a token for a session. Throws Problem: 401, 429.
    Opened open_session(const httplib::Request& request, const std::string& token);
    void close_session(const httplib::Request& request);

  private:
    struct Session {
        std::string name;
        operations::Right right;
        Digest secret;
        Digest token;
        std::string csrf;
        Clock::time_point until;
    };
    const TokenHolder* find(const std::string& token) const;
    const TokenHolder& demand(const httplib::Request& request, const std::string& token);
    Session* session_of(const httplib::Request& request);
    bool is_open_for_looking(const httplib::Request& request) const;
    void follow_files();
    void take(std::vector<TokenHolder> holders);

    const bool loopback_;
    const OnWrongToken on_wrong_token_;
    std::mutex mutex_;  // guards what follows
    std::vector<TokenSource> sources_;
    std::string list_file_;
    std::vector<TokenHolder> holders_;
    std::deque<Session> sessions_;
    Attempts attempts_;
    Clock::time_point files_seen_at_{};
    std::string file_marks_;
};

// True for 127.0.0.1, ::1, localhost and their like.
bool is_loopback(const std::string& host);
// The host of a Host header, without its port.
std::string host_of(const std::string& header);

}  // namespace baton::server
