#pragma once
// What is wrong with a request, as application/problem+json (RFC 9457): title, status, hint, and the
// database's SQLSTATE where there is one.

#include <httplib.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "baton/error.hpp"

namespace baton::server {

class Problem : public Error {
  public:
    Problem(int status, const std::string& title, const std::string& hint = {}, std::string sqlstate = {},
            nlohmann::ordered_json problems = nullptr)
        : Error(title, hint),
          status_(status),
          sqlstate_(std::move(sqlstate)),
          problems_(std::move(problems)) {}

    int status() const { return status_; }
    const std::string& sqlstate() const { return sqlstate_; }
    // Where several things are wrong: each of them. Else null.
    const nlohmann::ordered_json& problems() const { return problems_; }

  private:
    int status_;
    std::string sqlstate_;
    nlohmann::ordered_json problems_;
};

// The problem that an error of an operation is to whoever asked.
Problem problem_of(const Error& error);

std::string words_of(const Problem& problem);
void give(httplib::Response& response, const Problem& problem);

}  // namespace baton::server
