#include "server/api.hpp"

#include <prometheus/text_serializer.h>

#include <ctime>
#include <sstream>

#include "server/open_api.hpp"
#include "server/pages.hpp"
#include "server/problem.hpp"

namespace baton::server {

using namespace std::chrono_literals;
using operations::Json;
using operations::Right;
using postgres::Connection;

namespace {

constexpr int most_at_work = 10;
constexpr std::size_t door_threads = 16;
constexpr std::size_t longest_path = 2048;

// Answer in time even when the database sends its own words about time.
constexpr auto reserve = 1s;

bool is_of_api(const std::string& path) {
    return path == "/api" || path.starts_with("/api/");
}

bool is_of_status(const std::string& path) {
    return path == "/metrics" || path == "/livez" || path == "/readyz" || path == "/drained";
}

std::string dumped(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A cookie that no script reads and no other site sends.
std::string cookie(const httplib::Request& request, const std::string& value, long age) {
    const bool tls = request.get_header_value("X-Forwarded-Proto") == "https";
    return "baton_session=" + value + "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(age) +
           (tls ? "; Secure" : "");
}

// Everything that is wrong with settings, in one answer.
Problem problem_of_settings(const Json& problems) {
    std::string hint = problems[0]["hint"].get<std::string>();
    for (std::size_t i = 1; i < problems.size(); ++i)
        hint += (hint.empty() ? "also: "
                 : i == 1     ? "; also: "
                              : "; ") +
                problems[i]["what"].get<std::string>();
    return {400, problems[0]["what"].get<std::string>(), hint, "", problems};
}

// A place among the streams, until a stream takes it.
class LivePlace {
  public:
    explicit LivePlace(LiveStreams& live) : live_(live) {
        if (!live_.reserve()) throw Problem(503, "too many streams are open", "close a page");
    }
    ~LivePlace() {
        if (!taken_) live_.release();
    }
    LivePlace(const LivePlace&) = delete;
    LivePlace& operator=(const LivePlace&) = delete;

    void take(int socket) {
        taken_ = true;
        live_.add(socket);
    }

  private:
    LiveStreams& live_;
    bool taken_ = false;
};

}  // namespace

// A place among those that work for the API, until the answer is written.
class Api::Slot {
  public:
    explicit Slot(std::shared_ptr<std::atomic<int>> working) : working_(std::move(working)) {
        if (++*working_ <= most_at_work) return;
        --*working_;
        throw Problem(503, "too many requests are under way", "try again in a moment");
    }
    ~Slot() { --*working_; }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

  private:
    std::shared_ptr<std::atomic<int>> working_;
};

Api::Api(ApiSettings settings)
    : settings_(std::move(settings)),
      access_(settings_.tokens, settings_.token_file, settings_.loopback,
              [this](const std::string& address) {
                  counts_.add_wrong_token();
                  if (settings_.on_wrong_token) settings_.on_wrong_token(address);
              }),
      pool_(settings_.db, std::max<std::size_t>(settings_.connections, 2) - 1),
      live_([this] { return watch_.tick(); }),
      watch_(settings_.db, {settings_.relay, [this](const std::string& why) { pool_.set_trouble(why); },
                            [this](const std::string& alert) { live_.send("alert", alert); },
                            [this] { return live_.count() > 0; }}) {}

Api::~Api() {
    close();
    live_.stop();  // it asks the watch, which ends first
}

wire::DoorLimits Api::limits() {
    wire::DoorLimits limits;
    limits.threads = door_threads;
    limits.request_bytes += 2 << 20;  // a body in pieces is longer on its way
    return limits;
}

void Api::serve(wire::HttpDoor& door) {
    door.set_payload_max_length(1 << 20);
    door.word_errors([this](const httplib::Request& request, httplib::Response& response) {
        if (is_of_status(request.path)) return;
        add_safety_headers(response);
        // The library does not know every method there is, and takes such a request for no HTTP.
        if (response.status == 400 && is_of_api(request.target) && request.path.empty())
            return answer(request, response, nullptr);
        give(response, Problem(response.status, "the request cannot be understood",
                               "see docs/api.md for what there is"));
    });
    using Handled = httplib::Server::HandlerResponse;
    door.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
        if (is_of_status(request.path)) return Handled::Unhandled;
        if (request.target.find_first_of("?#") > longest_path && request.target.size() > longest_path) {
            give(response, Problem(414, "the address is too long"));
            return Handled::Handled;
        }
        if (!is_of_api(request.path)) {
            serve_page(dashboard_assets(), request, response);
            return Handled::Handled;
        }
        const bool body = request.method == "POST" || request.method == "PUT" || request.method == "DELETE";
        if (body) return Handled::Unhandled;
        answer(request, response, nullptr);
        return Handled::Handled;
    });
    const auto take = [this](const httplib::Request& request, httplib::Response& response,
                             const httplib::ContentReader& reader) { answer(request, response, &reader); };
    const std::string everything = R"([\s\S]*)";
    door.Post(everything, take);
    door.Put(everything, take);
    door.Delete(everything, take);
}

void Api::answer(const httplib::Request& request, httplib::Response& response,
                 const httplib::ContentReader* reader) {
    add_safety_headers(response);
    response.set_header("Cache-Control", "no-store");
    try {
        answer_or_throw(request, response, reader);
    } catch (const Error& error) {
        give(response, problem_of(error));
    } catch (const std::exception& error) {
        give(response, Problem(500, error.what()));
    }
    counts_.add_answer(response.status);
}

std::string Api::metrics() {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, counts_.families(live_.count()));
    return std::move(text).str();
}

void Api::answer_or_throw(const httplib::Request& request, httplib::Response& response,
                          const httplib::ContentReader* reader) {
    auto slot = std::make_shared<Slot>(working_);
    const auto parts = path_parts(request);
    std::string allowed;
    const Endpoint* endpoint = nullptr;
    try {
        endpoint = &routes_.find(request.method, parts, allowed);
    } catch (const Problem& problem) {
        if (problem.status() == 405) response.set_header("Allow", allowed);
        throw;
    }
    const auto& operation = endpoint->operation;
    const Visitor visitor = access_.meet(request);
    if (!endpoint->for_everybody) access_.check(visitor, operation.right, request);
    const std::string body = reader == nullptr ? "" : read_body(request, response, *reader);
    const Asked asked{request, response, *endpoint, visitor, arguments_of(operation, request, parts, body)};
    const bool of_catalog = !operation.sql.empty() || operation.work;
    auto text = std::make_shared<std::string>(of_catalog ? run(asked) : own_answer(asked));
    if (response.status > 0) return;
    response.status = 200;
    // The slot is kept until the last byte is written.
    response.set_content_provider(
        text->size(), endpoint->type,
        [text, slot](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
            return sink.write(text->data() + offset, length);
        });
}

std::string Api::run(const Asked& asked) {
    const auto& operation = asked.endpoint.operation;
    const auto ask = [&](Connection& db) {
        return operations::run(operation, db, asked.arguments, asked.visitor.in_words());
    };
    const operations::Arguments checked(operations::parameters_of(operation), asked.arguments);
    if (operation.name == "set_pipeline")
        if (const Json problems = lint(checked); !problems.empty()) throw problem_of_settings(problems);
    // ... before anybody waits
    const auto began = std::chrono::steady_clock::now();
    try {
        return pool_.with(operation.limit + reserve, ask);
    } catch (const ConnectionError&) {
        // A connection may have ended while nobody used it. Looking again does no harm.
        if (operation.right != Right::view || std::chrono::steady_clock::now() - began > reserve) throw;
        return pool_.with(operation.limit + reserve, ask);
    }
}

std::string Api::own_answer(const Asked& asked) {
    const auto& name = asked.endpoint.operation.name;
    const operations::Arguments arguments(operations::parameters_of(asked.endpoint.operation),
                                          asked.arguments);
    if (name == "show_session") return session_of(asked.visitor);
    if (name == "open_session") {
        const auto opened = access_.open_session(asked.request, arguments.text("token"));
        asked.response.set_header(
            "Set-Cookie",
            cookie(asked.request, opened.secret,
                   std::chrono::duration_cast<std::chrono::seconds>(Access::session_time).count()));
        return session_of(opened.visitor);
    }
    if (name == "close_session") {
        Access::check_csrf(asked.visitor, asked.request);
        access_.close_session(asked.request);
        asked.response.set_header("Set-Cookie", cookie(asked.request, "", 0));
        return session_of(Visitor{});
    }
    if (name == "describe_api") return open_api();
    if (name == "show_history") return history(arguments);
    if (name == "show_relay") return dumped(watch_.relay());
    if (name == "list_relays") return dumped(watch_.relays());
    if (name == "list_alerts") return dumped(watch_.alerts());
    if (name == "render_pipeline") return render(arguments);
    if (name == "lint_pipeline") {
        const Json problems = lint(arguments);
        return dumped({{"ok", problems.empty()}, {"problems", problems}});
    }
    if (name == "show_example") return example(arguments);
    if (name == "follow") follow(asked);
    return {};
}

std::string Api::session_of(const Visitor& visitor) {
    const char* right = !visitor.right ? "none" : *visitor.right == Right::view ? "view" : "operate";
    return dumped({{"name", visitor.name.empty() ? Json(nullptr) : Json(visitor.name)},
                   {"right", right},
                   {"tokens", access_.has_tokens()},
                   {"csrf", visitor.csrf.empty() ? Json(nullptr) : Json(visitor.csrf)}});
}

std::string Api::history(const operations::Arguments& arguments) const {
    const long long since =
        arguments.has("since") ? arguments["since"].get<long long>() : std::time(nullptr) - 3600;
    const long long step = arguments.has("step") ? arguments["step"].get<long long>() : 0;
    constexpr long long day = 86400;
    if (since < 0 || step < 0 || step > day)
        throw UsageError("since and step are not below 0, and step is at most a day", "leave them out");
    return dumped(watch_.history(since, step));
}

std::string Api::render(const operations::Arguments& arguments) {
    const auto events = arguments["limit"].get<long long>();
    if (events < 1 || events > 100) throw UsageError("limit is not between 1 and 100");
    if (!settings_.render) throw Problem(404, "pipelines are not rendered here");
    return pool_.with(10s + reserve, [&](Connection& db) {
        return settings_.render(db, arguments.text("pipeline"), static_cast<int>(events));
    });
}

Json Api::lint(const operations::Arguments& arguments) const {
    if (!settings_.lint) return Json::array();
    return settings_.lint(arguments.text("pipeline"), arguments.text("settings"));
}

std::string Api::example(const operations::Arguments& arguments) const {
    const std::string sink = arguments.text("sink"), outbox = arguments.text("outbox");
    const std::string pipeline =
        arguments.has("pipeline") ? arguments.text("pipeline") : outbox + "-to-" + sink;
    if (!settings_.example) throw Problem(404, "there are no examples here");
    try {
        return dumped({{"pipeline", pipeline}, {"text", settings_.example(sink, outbox, pipeline)}});
    } catch (const UsageError& error) {
        throw Problem(404, error.what(), error.hint());
    }
}

// Answer with the head of a stream; then the connection belongs to the streams, and the thread is free.
void Api::follow(const Asked& asked) {
    asked.response.status = 200;
    if (asked.request.method == "HEAD") return;
    auto place = std::make_shared<LivePlace>(live_);
    asked.response.set_content_provider(
        "text/event-stream", [place = std::move(place)](std::size_t, httplib::DataSink& sink) {
            const std::string head = "retry: 2000\n\n";
            if (!sink.write(head.data(), head.size())) return false;
            sink.done();
            wire::HttpDoor::give_away([place](int socket) { place->take(socket); });
            return true;
        });
}

}  // namespace baton::server
