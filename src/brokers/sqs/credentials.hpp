#pragma once
// The keys that sign requests to AWS. baton looks for keys where AWS's own tools look, and takes the first
// place that has any:
//
//   1. settings      access_key and secret_key, or `profile`
//   2. environment   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   3. web identity  AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, exchanged at STS (Kubernetes)
//   4. profile       AWS_PROFILE, else default, in ~/.aws/credentials and ~/.aws/config
//   5. container     AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or ..._FULL_URI (ECS, EKS)
//   6. instance      the metadata service of an EC2 instance, version 2; not with AWS_EC2_METADATA_DISABLED
//
// Keys from the last three places and from STS are valid for a limited time. They are renewed some minutes
// before this time is over. While a renewal fails, keys that are still valid are used.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "relay/settings.hpp"
#include "wire/http_transfers.hpp"

namespace baton::brokers {

struct AwsKeys {
    wire::SigningKeys keys;
    std::optional<std::chrono::system_clock::time_point> expires;
};

// Returns the value of an environment variable; empty when the variable is not set.
using Environment = std::function<std::string(const std::string& name)>;
std::string process_environment(const std::string& name);

class AwsCredentials {
  public:
    using Clock = std::chrono::system_clock;

    // Throws SettingsError when the settings name half a key, or a profile that does not exist.
    AwsCredentials(const relay::Settings& settings, std::string region,
                   Environment environment = process_environment);

    // Return valid keys; ask for new keys when it is time. Throws Error in plain words when there are none.
    // May be called from any thread.
    std::shared_ptr<const wire::SigningKeys> keys(Clock::time_point now = Clock::now());
    // Note that the keys were refused: ask for other keys after a while.
    void refused();
    // Where the keys come from, for messages.
    const std::string& place() const { return place_; }

  private:
    using Ask = std::function<AwsKeys()>;
    using Section = std::map<std::string, std::string>;

    bool use_settings(const relay::Settings& settings);
    bool use_environment();
    bool use_web_identity(const std::string& token_file, const std::string& role, const std::string& name);
    bool use_profile(const std::string& name);
    bool use_container();
    bool use_instance();
    void use(std::string place, wire::SigningKeys keys);
    void use(std::string place, Ask ask);
    void renew(Clock::time_point now);

    AwsKeys exchange(const std::string& token_file, const std::string& role, const std::string& name) const;
    AwsKeys ask_container(const std::string& url) const;
    AwsKeys ask_instance(const std::string& endpoint) const;
    Section profile(const std::string& name) const;

    Environment environment_;
    std::string region_;
    std::string place_;
    Ask ask_;

    std::mutex mutex_;
    std::shared_ptr<const wire::SigningKeys> keys_;
    Clock::time_point expires_{};
    Clock::time_point renew_at_{};
    std::string trouble_;  // why the last request for keys failed
};

}  // namespace baton::brokers
