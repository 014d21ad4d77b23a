#include "chaos/stand_parts.hpp"

namespace baton::test {

using audit::Fault;

namespace {

// The server is the auditor's own; from outside only the way to it can be broken.
class HttpStand final : public Stand {
  public:
    HttpStand() : port_(find_free_port()) { proxy_.set_target(port_); }
    Values sink() override {
        return {{"type", "http"},
                {"url", "http://" + at(proxy_.port())},
                {"headers.authorization", "Bearer " + secret_.reference()},
                {"max_concurrent", std::int64_t{4}},
                {"connect_timeout", "1s"},
                {"timeout", "2s"}};
    }
    Values reader() override {
        return {{"port", std::int64_t{port_}}, {"authorization", "Bearer " + at_receiver_.reference()}};
    }
    Values source() override {
        return {{"type", "http"}, {"listen", at(port_)}, {"secret", secret}, {"answer_timeout", "3s"}};
    }
    Values publisher() override {
        return {{"url", "http://" + at(proxy_.port())},
                {"secret", secret},
                {"connect_timeout", "1s"},
                {"timeout", "4s"}};
    }
    bool has_server() const override { return false; }
    Proxy* proxy() override { return &proxy_; }
    // On the way in the secret is shared with the auditor's own publisher.
    std::vector<Fault> own_faults(Way way) override {
        if (way == Way::in) return {};
        return {secret_.exchange([this](const std::string& value) { at_receiver_.exchange(value); })};
    }

  private:
    static constexpr const char* secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    int port_;
    Proxy proxy_;
    Secret secret_;
    SecretFile at_receiver_{secret_.value()};
};

}  // namespace

void add_http_stands(StandMakers& makers) {
    makers["http"] = make<HttpStand>;
}

}  // namespace baton::test
