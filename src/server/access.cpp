#include "server/access.hpp"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/file.hpp"
#include "base/text.hpp"
#include "server/problem.hpp"
#include "wire/encoding.hpp"

namespace baton::server {

using operations::Right;

namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::size_t longest_token = 1000;
constexpr std::size_t most_addresses = 1000;
constexpr const char* cookie_name = "baton_session";
constexpr const char* how_to_set =
    "set BATON_API_TOKEN, or name a file with --token-file; the relay's file may have [[server.tokens]]";

Digest digest_of(std::string_view text) {
    Digest digest{};
    std::memcpy(digest.data(), wire::sha256(text).data(), digest.size());
    return digest;
}

bool same(const Digest& a, const Digest& b) {
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string make_secret() {
    std::array<unsigned char, 32> bytes{};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) throw Error("there is no randomness");
    return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string trimmed(std::string text) {
    text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    return text;
}

bool is_name(const std::string& name) {
    return !name.empty() && name.size() <= 64 && is_text(name) &&
           std::none_of(name.begin(), name.end(),
                        [](unsigned char byte) { return byte < 32 || byte == 127; });
}

void add(std::vector<TokenHolder>& holders, const std::string& name, Right right, const std::string& token,
         const std::string& place) {
    if (!is_name(name))
        throw UsageError("a token of " + place + " has no name that can be shown", "give it a short name");
    if (token.size() < shortest_token || token.size() > longest_token ||
        token.find_first_of(" \t\r\n") != std::string::npos)
        throw UsageError("the token of " + name + " in " + place + " cannot be used",
                         "a token has at least 16 characters and no spaces: openssl rand -hex 32");
    const Digest digest = digest_of(token);
    for (const auto& other : holders)
        if (other.name == name || same(other.digest, digest))
            throw UsageError("the name or the token of " + name + " in " + place + " is used twice",
                             "give everybody a name and a token of their own");
    holders.push_back({name, right, digest});
}

void add_list(std::vector<TokenHolder>& holders, const std::string& file) {
    std::istringstream lines(read_text(file));
    std::size_t before = holders.size();
    for (std::string line; std::getline(lines, line);) {
        line = trimmed(line);
        if (line.empty() || line.starts_with('#')) continue;
        std::istringstream words(line);
        std::vector<std::string> parts{std::istream_iterator<std::string>(words), {}};
        if (parts.size() == 1) parts = {"operator", "operator", parts[0]};
        if (parts.size() != 3 || (parts[1] != "operator" && parts[1] != "viewer"))
            throw UsageError(file + " has a line that is no token",
                             "write a token alone, or NAME operator TOKEN, or NAME viewer TOKEN");
        add(holders, parts[0], parts[1] == "operator" ? Right::operate : Right::view, parts[2], file);
    }
    if (holders.size() == before)
        throw UsageError("there is no token in " + file, "write one: openssl rand -hex 32 > FILE");
}

// What the system knows of the files, without reading them.
std::string marks_of(const std::vector<TokenSource>& sources, const std::string& list_file) {
    std::string marks;
    const auto note = [&marks](const std::string& file) {
        std::error_code none;
        if (file.empty()) return;
        const auto time = std::filesystem::last_write_time(file, none).time_since_epoch().count();
        marks += std::to_string(time) + "/" + std::to_string(std::filesystem::file_size(file, none)) + ";";
    };
    note(list_file);
    for (const auto& source : sources) note(source.file);
    return marks;
}

std::string cookie_of(const httplib::Request& request) {
    const std::string header = request.get_header_value("Cookie");
    const std::string wanted = std::string(cookie_name) + "=";
    for (std::size_t at = 0; at < header.size();) {
        const auto end = std::min(header.find(';', at), header.size());
        const std::string one = trimmed(header.substr(at, end - at));
        if (one.starts_with(wanted)) return one.substr(wanted.size());
        at = end + 1;
    }
    return {};
}

bool came_by_proxy(const httplib::Request& request) {
    for (const char* name : {"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"})
        if (request.has_header(name)) return true;
    return false;
}

// Another site's page must not ask in the name of whoever looks at it.
void refuse_other_sites(const httplib::Request& request) {
    const std::string site = request.get_header_value("Sec-Fetch-Site");
    if (site == "cross-site" || site == "same-site")
        throw Problem(403, "a page of another site may not ask here");
    const std::string origin = request.get_header_value("Origin");
    if (origin.empty()) return;
    const auto scheme = origin.find("://");
    if (scheme == std::string::npos ||
        !same_name(origin.substr(scheme + 3), request.get_header_value("Host")))
        throw Problem(403, "a page of another site may not ask here");
}

}  // namespace

bool is_loopback(const std::string& host) {
    const std::string name = lower(host);
    if (name == "localhost" || name.ends_with(".localhost")) return true;
    in_addr four{};
    if (::inet_pton(AF_INET, name.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
    in6_addr six{};
    return ::inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

std::string host_of(const std::string& header) {
    if (header.starts_with('[')) {
        const auto end = header.find(']');
        return end == std::string::npos ? "" : header.substr(1, end - 1);
    }
    return header.substr(0, header.find(':'));
}

std::vector<TokenSource> token_sources_of_environment() {
    std::vector<TokenSource> sources;
    const auto look = [&sources](const char* variable, const char* name, Right right) {
        const char* value = std::getenv(variable);
        if (value != nullptr && *value != '\0') sources.push_back({name, right, {}, variable});
    };
    look("BATON_API_TOKEN", "operator", Right::operate);
    look("BATON_API_VIEW_TOKEN", "viewer", Right::view);
    return sources;
}

std::vector<TokenHolder> read_tokens(const std::vector<TokenSource>& sources, const std::string& list_file) {
    std::vector<TokenHolder> holders;
    for (const auto& source : sources) {
        if (!source.file.empty()) {
            add(holders, source.name, source.right, trimmed(read_text(source.file)), source.file);
        } else {
            const char* value = std::getenv(source.variable.c_str());
            add(holders, source.name, source.right, value == nullptr ? "" : value, source.variable);
        }
    }
    if (!list_file.empty()) add_list(holders, list_file);
    return holders;
}

double Attempts::count_now(const Failures& failures, Clock::time_point now) const {
    const double recovered = std::chrono::duration<double>(now - failures.at) / pause;
    return std::max(0.0, failures.count - recovered);
}

bool Attempts::allowed(const std::string& address, Clock::time_point now) {
    const auto found = failures_.find(address);
    return found == failures_.end() || count_now(found->second, now) <= most - 1;
}

void Attempts::note_failure(const std::string& address, Clock::time_point now) {
    if (failures_.size() >= most_addresses && !failures_.contains(address)) {
        std::erase_if(failures_, [&](const auto& one) { return count_now(one.second, now) <= 0; });
        if (failures_.size() >= most_addresses) failures_.erase(failures_.begin());
    }
    auto& failures = failures_[address];
    failures = {count_now(failures, now) + 1, now};
}

Access::Access(std::vector<TokenSource> sources, std::string list_file, bool loopback,
               OnWrongToken on_wrong_token)
    : loopback_(loopback),
      on_wrong_token_(std::move(on_wrong_token)),
      sources_(std::move(sources)),
      list_file_(std::move(list_file)) {
    file_marks_ = marks_of(sources_, list_file_);
    take(read_tokens(sources_, list_file_));
}

void Access::take(std::vector<TokenHolder> holders) {
    holders_ = std::move(holders);
    std::erase_if(sessions_, [this](const Session& session) {
        return std::none_of(holders_.begin(), holders_.end(), [&](const TokenHolder& holder) {
            return same(holder.digest, session.token) && holder.right == session.right;
        });
    });
}

void Access::replace(std::vector<TokenSource> sources, const std::string& list_file) {
    auto holders = read_tokens(sources, list_file);
    const std::lock_guard lock(mutex_);
    sources_ = std::move(sources);
    list_file_ = list_file;
    file_marks_ = marks_of(sources_, list_file_);
    take(std::move(holders));
}

// Take tokens that were exchanged in their files. A file that cannot be read leaves everything as it was.
void Access::follow_files() {
    const auto now = Clock::now();
    if (now < files_seen_at_ + std::chrono::seconds(1)) return;
    files_seen_at_ = now;
    std::string marks = marks_of(sources_, list_file_);
    if (marks == file_marks_) return;
    try {
        take(read_tokens(sources_, list_file_));
        file_marks_ = std::move(marks);
    } catch (const Error&) {  // it is being written: look again
        return;
    }
}

bool Access::has_tokens() {
    const std::lock_guard lock(mutex_);
    return !holders_.empty();
}

// Compares with all tokens, so that the time does not tell which of them was nearly right.
const TokenHolder* Access::find(const std::string& token) const {
    const Digest digest = digest_of(token);
    const TokenHolder* found = nullptr;
    for (const auto& holder : holders_)
        if (same(holder.digest, digest)) found = &holder;
    return found;
}

const TokenHolder& Access::demand(const httplib::Request& request, const std::string& token) {
    if (!attempts_.allowed(request.remote_addr))
        throw Problem(429, "too many wrong tokens came from this address", "wait a minute");
    const auto* holder = find(token);
    if (holder != nullptr) return *holder;
    attempts_.note_failure(request.remote_addr);
    if (on_wrong_token_) on_wrong_token_(request.remote_addr);
    throw Problem(401, "the token is not known", holders_.empty() ? how_to_set : "check the token");
}

Access::Session* Access::session_of(const httplib::Request& request) {
    const std::string secret = cookie_of(request);
    if (secret.empty()) return nullptr;
    const auto now = Clock::now();
    std::erase_if(sessions_, [now](const Session& session) { return session.until < now; });
    const Digest digest = digest_of(secret);
    Session* found = nullptr;
    for (auto& session : sessions_)
        if (same(session.secret, digest)) found = &session;
    return found;
}

bool Access::is_open_for_looking(const httplib::Request& request) const {
    return loopback_ && is_loopback(host_of(request.get_header_value("Host"))) && !came_by_proxy(request);
}

Visitor Access::meet(const httplib::Request& request) {
    if (request.get_header_value_count("Host") != 1)
        throw Problem(400, "the request does not say for which host it is");
    refuse_other_sites(request);
    const std::lock_guard lock(mutex_);
    follow_files();
    if (request.has_header("Authorization")) {
        const std::string value = request.get_header_value("Authorization");
        if (request.get_header_value_count("Authorization") != 1 || !same_name(value.substr(0, 7), "Bearer "))
            throw Problem(401, "the authorization is no token", "write Authorization: Bearer TOKEN");
        const auto& holder = demand(request, trimmed(value.substr(7)));
        return {holder.name, holder.right, false, {}};
    }
    if (auto* session = session_of(request)) {
        session->until = Clock::now() + session_time;
        return {session->name, session->right, true, session->csrf};
    }
    Visitor visitor;
    if (is_open_for_looking(request)) visitor.right = Right::view;
    return visitor;
}

void Access::check(const Visitor& visitor, Right wanted, const httplib::Request& request) {
    if (!visitor.may(wanted)) {
        if (!visitor.name.empty())
            throw Problem(403, visitor.name + " may look, and may not change anything",
                          "use the token of an operator");
        throw Problem(401, wanted == Right::view ? "looking needs a token here" : "a change needs a token",
                      has_tokens() ? "send it as Authorization: Bearer TOKEN" : how_to_set);
    }
    if (wanted != Right::view) check_csrf(visitor, request);
}

void Access::check_csrf(const Visitor& visitor, const httplib::Request& request) {
    if (!visitor.by_session) return;
    const std::string given = request.get_header_value("X-Baton-CSRF");
    if (!same(digest_of(given), digest_of(visitor.csrf)))
        throw Problem(403, "the header X-Baton-CSRF does not belong to the session",
                      "take csrf from GET /api/v1/session");
}

Access::Opened Access::open_session(const httplib::Request& request, const std::string& token) {
    const std::lock_guard lock(mutex_);
    follow_files();
    const auto& holder = demand(request, trimmed(token));
    if (sessions_.size() >= most_sessions) sessions_.pop_front();
    Opened opened{make_secret(), {holder.name, holder.right, true, make_secret()}};
    sessions_.push_back({holder.name, holder.right, digest_of(opened.secret), holder.digest,
                         opened.visitor.csrf, Clock::now() + session_time});
    return opened;
}

void Access::close_session(const httplib::Request& request) {
    const std::lock_guard lock(mutex_);
    const Session* session = session_of(request);
    if (session == nullptr) return;
    std::erase_if(sessions_, [&](const Session& one) { return same(one.secret, session->secret); });
}

}  // namespace baton::server
