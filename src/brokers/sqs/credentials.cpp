#include "brokers/sqs/credentials.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "baton/error.hpp"
#include "wire/url.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;
using nlohmann::json;
using wire::SigningKeys;

namespace {

constexpr auto renew_ahead = 5min;
constexpr auto between_questions = 2s;

struct Question {
    std::string url;
    std::string method = "GET";
    std::vector<std::string> headers = {};
    std::string body = {};
    std::string secret = {};  // what the question proves its right with, as it is written in it
    bool proxy = false;  // as the environment says; whatever is on this machine or link is asked directly
    long timeout_ms = 2000;
};

std::size_t append(const char* bytes, std::size_t, std::size_t size, void* into) {
    auto& text = *static_cast<std::string*>(into);
    if (text.size() + size > 256 * 1024) return 0;
    text.append(bytes, size);
    return size;
}

// The first words of a service that refuses, for an operator to read. A service may repeat what it was asked.
std::string complaint_of(std::string answer, const std::string& secret) {
    for (std::size_t at = 0; !secret.empty() && (at = answer.find(secret, at)) != std::string::npos; at += 3)
        answer.replace(at, secret.size(), "***");
    return answer.substr(0, 200);
}

// Return the body of a good answer; throws ConnectionError with the status otherwise, and with the first
// words when they are a refusal: other answers may hold keys.
std::string ask(const Question& question) {
    const std::unique_ptr<CURL, void (*)(CURL*)> easy(curl_easy_init(), curl_easy_cleanup);
    curl_slist* list = nullptr;
    for (const auto& header : question.headers) list = curl_slist_append(list, header.c_str());
    const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(list, curl_slist_free_all);
    std::string answer;
    curl_easy_setopt(easy.get(), CURLOPT_URL, question.url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_CUSTOMREQUEST, question.method.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
    if (question.method != "GET") curl_easy_setopt(easy.get(), CURLOPT_COPYPOSTFIELDS, question.body.c_str());
    if (!question.proxy) curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT_MS, std::min(question.timeout_ms, 2000L));
    curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, question.timeout_ms);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer);
    const CURLcode result = curl_easy_perform(easy.get());
    if (result != CURLE_OK) throw ConnectionError(curl_easy_strerror(result));
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status == 200) return answer;
    const std::string said = status < 400 ? "" : complaint_of(std::move(answer), question.secret);
    throw ConnectionError("HTTP " + std::to_string(status) + (said.empty() ? "" : ": ") + said);
}

std::string url_escaped(std::string_view text) {
    std::string out;
    append_url_escaped(out, text);
    return out;
}

// Keys are asked for in the clear only where nobody else listens.
bool may_be_asked(const std::string& text) {
    const auto url = wire::parse_url(text);
    return url.scheme == "https" || url.host.starts_with("127.") ||
           std::set<std::string>{"localhost", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
               .contains(url.host);
}

// "2026-01-31T12:00:00Z", with or without a fraction.
std::optional<AwsCredentials::Clock::time_point> time_of(const std::string& text) {
    std::tm parts{};
    const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (end == nullptr) return {};
    return AwsCredentials::Clock::from_time_t(timegm(&parts));
}

std::string member(const json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

AwsKeys complete(AwsKeys made) {
    if (made.keys.access_key.empty() || made.keys.secret_key.empty())
        throw ConnectionError("the answer has no keys");
    return made;
}

// The form in which containers and instances give keys.
AwsKeys keys_of(const std::string& text) {
    const json body = json::parse(text, nullptr, false);
    return complete({{member(body, "AccessKeyId"), member(body, "SecretAccessKey"), member(body, "Token")},
                     time_of(member(body, "Expiration"))});
}

// The text of an XML element that has no others in it; STS's values have nothing to be decoded.
std::string element(const std::string& xml, const std::string& name) {
    const auto begin = xml.find("<" + name + ">");
    if (begin == std::string::npos) return {};
    const auto from = begin + name.size() + 2;
    return xml.substr(from, xml.find("</" + name + ">", from) - from);
}

std::string first_line_of(const std::string& file) {
    std::ifstream stream(file);
    std::string line;
    if (!std::getline(stream, line)) throw ConnectionError("cannot read " + file);
    return line;
}

std::string trimmed(std::string_view text) {
    const auto from = text.find_first_not_of(" \t\r");
    if (from == std::string_view::npos) return {};
    return std::string(text.substr(from, text.find_last_not_of(" \t\r") - from + 1));
}

// The name of the section that a line begins, as in `[profile "a b"] # remark`; nothing when the line is
// another. A line that only looks like the beginning of a section has the name of none.
std::optional<std::string> section_of(std::string_view line) {
    if (!line.starts_with('[')) return std::nullopt;
    std::string name = trimmed(line.substr(1, line.find(']') - 1));
    if (line.find(']') == std::string_view::npos) return "";
    if (name.starts_with("profile ") || name.starts_with("profile\t")) {
        std::string profile = trimmed(name.substr(8));
        if (profile.size() > 1 && profile.starts_with('"') && profile.ends_with('"'))
            profile = profile.substr(1, profile.size() - 2);
        name = "profile " + profile;
    }
    return name;
}

// The value on a line: a remark begins with # or ; behind a space.
std::string without_remark(std::string_view value) {
    for (std::size_t at = 1; at < value.size(); ++at)
        if ((value[at] == '#' || value[at] == ';') && (value[at - 1] == ' ' || value[at - 1] == '\t'))
            value = value.substr(0, at);
    return trimmed(value);
}

// Add what a section of an INI file says; the first word on a matter stands.
void read_section(const std::string& file, const std::string& section,
                  std::map<std::string, std::string>& into) {
    std::ifstream stream(file);
    bool inside = false;
    for (std::string line; std::getline(stream, line);) {
        const std::string text = trimmed(line);
        if (const auto begun = section_of(text)) {
            inside = *begun == section;
            continue;
        }
        const auto equals = text.find('=');
        if (!inside || text.starts_with('#') || text.starts_with(';') || equals == std::string::npos)
            continue;
        into.emplace(lower(trimmed(text.substr(0, equals))), without_remark(text.substr(equals + 1)));
    }
}

std::string value_of(const std::map<std::string, std::string>& section, const char* name) {
    const auto found = section.find(name);
    return found == section.end() ? std::string() : found->second;
}

}  // namespace

std::string process_environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::string() : value;
}

AwsCredentials::AwsCredentials(const relay::Settings& settings, std::string region, Environment environment)
    : environment_(std::move(environment)), region_(std::move(region)) {
    if (use_settings(settings) || use_environment() ||
        use_web_identity(environment_("AWS_WEB_IDENTITY_TOKEN_FILE"), environment_("AWS_ROLE_ARN"),
                         environment_("AWS_ROLE_SESSION_NAME")))
        return;
    const std::string profile = environment_("AWS_PROFILE");
    if (use_profile(profile.empty() ? "default" : profile)) return;
    if (!profile.empty())
        settings.refuse("profile", "AWS_PROFILE names \"" + profile + "\", which has no keys in ~/.aws");
    if (use_container() || use_instance()) return;
    settings.refuse(
        "access_key", "is missing, and AWS gives keys in no other way here",
        "set access_key and secret_key, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile");
}

void AwsCredentials::use(std::string place, SigningKeys keys) {
    place_ = std::move(place);
    keys_ = std::make_shared<const SigningKeys>(std::move(keys));
}

void AwsCredentials::use(std::string place, Ask ask) {
    place_ = std::move(place);
    ask_ = std::move(ask);
}

bool AwsCredentials::use_settings(const relay::Settings& settings) {
    if (settings.has("access_key") || settings.has("secret_key")) {
        for (const char* key : {"access_key", "secret_key"})
            if (settings.text(key, "").empty()) settings.refuse(key, "is missing");
        use("the settings",
            {settings.text("access_key"), settings.text("secret_key"), settings.text("session_token", "")});
        return true;
    }
    const std::string profile = settings.text("profile", "");
    if (profile.empty()) return false;
    if (!use_profile(profile))
        settings.refuse("profile", "has no keys in ~/.aws/credentials or ~/.aws/config",
                        "write aws_access_key_id and aws_secret_access_key, or role_arn and "
                        "web_identity_token_file");
    return true;
}

bool AwsCredentials::use_environment() {
    SigningKeys found{environment_("AWS_ACCESS_KEY_ID"), environment_("AWS_SECRET_ACCESS_KEY"),
                      environment_("AWS_SESSION_TOKEN")};
    if (found.access_key.empty() || found.secret_key.empty()) return false;
    use("the environment", std::move(found));
    return true;
}

bool AwsCredentials::use_web_identity(const std::string& token_file, const std::string& role,
                                      const std::string& name) {
    if (token_file.empty() || role.empty()) return false;
    use("STS, for " + role,
        [this, token_file, role, name] { return exchange(token_file, role, name.empty() ? "baton" : name); });
    return true;
}

AwsCredentials::Section AwsCredentials::profile(const std::string& name) const {
    const std::string home = environment_("HOME") + "/.aws/";
    const auto file = [&](const char* variable, const char* usual) {
        const std::string given = environment_(variable);
        return given.empty() ? home + usual : given;
    };
    Section found;
    read_section(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name, found);
    read_section(file("AWS_CONFIG_FILE", "config"), name == "default" ? name : "profile " + name, found);
    return found;
}

bool AwsCredentials::use_profile(const std::string& name) {
    const Section section = profile(name);
    SigningKeys found{value_of(section, "aws_access_key_id"), value_of(section, "aws_secret_access_key"),
                      value_of(section, "aws_session_token")};
    if (found.access_key.empty() || found.secret_key.empty())
        return use_web_identity(value_of(section, "web_identity_token_file"), value_of(section, "role_arn"),
                                value_of(section, "role_session_name"));
    use("the profile " + name, std::move(found));
    return true;
}

bool AwsCredentials::use_container() {
    std::string url = environment_("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (const std::string path = environment_("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !path.empty())
        url = "http://169.254.170.2" + path;
    if (url.empty()) return false;
    if (!may_be_asked(url))
        throw UsageError("AWS_CONTAINER_CREDENTIALS_FULL_URI is no https:// address and not on this machine");
    use("the container's agent", [this, url] { return ask_container(url); });
    return true;
}

bool AwsCredentials::use_instance() {
    if (lower(environment_("AWS_EC2_METADATA_DISABLED")) == "true") return false;
    std::string endpoint = environment_("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (endpoint.empty()) endpoint = "http://169.254.169.254";
    while (endpoint.ends_with('/')) endpoint.pop_back();
    use("the instance's metadata", [this, endpoint] { return ask_instance(endpoint); });
    return true;
}

AwsKeys AwsCredentials::exchange(const std::string& token_file, const std::string& role,
                                 const std::string& name) const {
    std::string endpoint = environment_("AWS_ENDPOINT_URL_STS");
    if (endpoint.empty()) endpoint = "https://sts." + region_ + ".amazonaws.com";
    // The token is renewed by whoever wrote the file, so it is read each time.
    Question question{endpoint, "POST", {"content-type: application/x-www-form-urlencoded"}};
    question.secret = url_escaped(first_line_of(token_file));
    question.body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + url_escaped(role) +
                    "&RoleSessionName=" + url_escaped(name) + "&WebIdentityToken=" + question.secret;
    question.proxy = true;
    question.timeout_ms = 10'000;
    const std::string answer = ask(question);
    return complete({{element(answer, "AccessKeyId"), element(answer, "SecretAccessKey"),
                      element(answer, "SessionToken")},
                     time_of(element(answer, "Expiration"))});
}

AwsKeys AwsCredentials::ask_container(const std::string& url) const {
    Question question{url};
    std::string token = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (const std::string file = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty())
        token = first_line_of(file);
    if (!token.empty()) question.headers.push_back("Authorization: " + token);
    question.secret = trimmed(token);
    return keys_of(ask(question));
}

AwsKeys AwsCredentials::ask_instance(const std::string& endpoint) const {
    const std::string token =
        ask({endpoint + "/latest/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}});
    const std::vector<std::string> headers{"X-aws-ec2-metadata-token: " + token};
    const std::string roles = endpoint + "/latest/meta-data/iam/security-credentials/";
    const std::string role = trimmed(ask({roles, "GET", headers}));
    return keys_of(ask({roles + role.substr(0, role.find('\n')), "GET", headers}));
}

std::shared_ptr<const SigningKeys> AwsCredentials::keys(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (!ask_) return keys_;
    if (now >= renew_at_) renew(now);
    if (!keys_) throw ConnectionError("no keys for AWS from " + place_ + ": " + trouble_);
    return keys_;
}

void AwsCredentials::renew(Clock::time_point now) {
    renew_at_ = now + between_questions;
    try {
        const AwsKeys fresh = ask_();
        keys_ = std::make_shared<const SigningKeys>(fresh.keys);
        expires_ = fresh.expires.value_or(Clock::time_point::max());
        renew_at_ = std::max(expires_ - renew_ahead, renew_at_);
    } catch (const Error& error) {
        trouble_ = error.what();
        if (now >= expires_) keys_ = nullptr;
    }
}

void AwsCredentials::refused() {
    const std::lock_guard lock(mutex_);
    if (ask_) renew_at_ = std::min(renew_at_, Clock::now() + between_questions);
}

}  // namespace baton::brokers
