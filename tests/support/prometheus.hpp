#pragma once
// Debian's Prometheus, scraping every second.

#include <map>
#include <optional>
#include <set>

#include "support/broker.hpp"

namespace baton::test {

class Prometheus final : public Broker {
  public:
    // Jobs with their target, HOST:PORT, and a file with rules.
    Prometheus(std::map<std::string, std::string> targets, std::filesystem::path rules);

    // What the API answers under this path, as JSON. Throws Error when the answer is an error.
    std::string ask(const std::string& path) const;
    // The answer to a query, as JSON: a list of samples.
    std::string query(const std::string& expression) const;
    // The value of the first sample that answers a query; empty when none does.
    std::optional<double> value(const std::string& expression) const;

  protected:
    Command command() override;
    bool ready() override;
    void prepare() override;

  private:
    const std::map<std::string, std::string> targets_;
    const std::filesystem::path rules_;
};

}  // namespace baton::test
