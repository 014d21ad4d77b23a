#include "stage.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "baton/error.hpp"
#include "player.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::string address(int port) {
    return "http://127.0.0.1:" + std::to_string(port);
}

}  // namespace

Webhook::Webhook() : port_(0) {
    server_.Post(".*", [this](const httplib::Request& request, httplib::Response& response) {
        if (request.body.find("\"total\": null") != std::string::npos) {
            response.status = 422;
            response.set_content("total is missing", "text/plain");
            return;
        }
        const std::lock_guard lock(mutex_);
        bodies_.push_back(request.body);
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
}

Webhook::~Webhook() {
    server_.stop();
    thread_.join();
}

bool Webhook::has(const std::string& text) const {
    const std::lock_guard lock(mutex_);
    for (const auto& body : bodies_)
        if (body.find(text) != std::string::npos) return true;
    return false;
}

Stage::Stage() : url_(shared_cluster(Form::extension).fresh_database()), port_(find_free_port()) {
    redis_.start();
    std::ofstream(folder_ / "tokens") << "ann operator operators-token-0123456789\n"
                                      << "vic viewer viewers-token-0123456789\n";
    fs::permissions(folder_ / "tokens", fs::perms(0600));
    furnish();
    start_relay();
    publisher_ = std::thread([this] { publish_all_the_time(); });
}

Stage::~Stage() {
    ends_ = true;
    publisher_.join();
    if (relay_) relay_->stop();
}

// A small shop: two outboxes, pipelines to a broker and to a webhook, consumers that failed, an inbox with a
// gap, a stream table. One invoice cannot be delivered.
void Stage::furnish() {
    Connection db(url_);
    db.exec("set client_min_messages = warning");
    db.exec(read_text(fs::path(BATON_SOURCE) / "tests/browser/furnish.sql"));
    const auto pipeline = [&db](const std::string& name, const json& settings) {
        db.query("select baton.set_pipeline($1, $2::jsonb)", {name, settings.dump()});
    };
    pipeline("orders-to-redis", {{"source", {{"outbox", "orders"}}},
                                 {"sink",
                                  {{"type", "redis"},
                                   {"url", "redis://127.0.0.1:" + std::to_string(redis_.port())},
                                   {"stream", "shop.orders"}}}});
    pipeline("invoices-to-webhook",
             {{"source", {{"outbox", "invoices"}}},
              {"sink",
               {{"type", "http"},
                {"url", "http://127.0.0.1:" + std::to_string(webhook_.port()) + "/hook"},
                {"allow_private", true}}},
              {"failure", {{"attempts", 1}, {"max_attempts", 1}}}});
    pipeline("claims-to-redis", {{"source", {{"outbox", "claims"}}},
                                 {"sink",
                                  {{"type", "redis"},
                                   {"url", "redis://127.0.0.1:" + std::to_string(redis_.port())},
                                   {"stream", "shop.claims"},
                                   {"max_message_bytes", 1000}}},
                                 {"failure", {{"attempts", 1}, {"max_attempts", 1}}}});
}

void Stage::start_relay() {
    relay_ = std::make_unique<Process>(
        start_baton({"relay", "--db", url_, "--listen", "127.0.0.1:" + std::to_string(port_), "--token-file",
                     (folder_ / "tokens").string()},
                    folder_ / "relay.out", folder_ / "relay.log"));
    wait_until("the relay serves the page", [this] {
        httplib::Client http("127.0.0.1", port_);
        const auto page = http.Get("/api/v1/session");
        return page && page->status == 200;
    });
}

// The page without a relay inside.
std::string Stage::start_dashboard() {
    const int port = find_free_port();
    dashboard_ = std::make_unique<Process>(
        start_baton({"dashboard", "--db", url_, "--listen", "127.0.0.1:" + std::to_string(port),
                     "--token-file", (folder_ / "tokens").string()},
                    folder_ / "dashboard.out", folder_ / "dashboard.log"));
    wait_until("the dashboard serves the page", [port] {
        httplib::Client http("127.0.0.1", port);
        const auto page = http.Get("/api/v1/session");
        return page && page->status == 200;
    });
    return address(port);
}

void Stage::publish_all_the_time() {
    Connection db(url_, "shop");
    for (int n = 0; !ends_; ++n) {
        db.query(
            "select baton.publish('orders', 'order.placed', jsonb_build_object('order', $1::int, 'total', 10 "
            "+ "
            "$1::int % 90), 'order', $1::int % 50) from generate_series(1, 2 + $1::int % 5)",
            {n});
        std::this_thread::sleep_for(200ms);
    }
}

std::string Stage::stream_has(const std::string& stream, const std::string& text) const {
    const auto found =
        run({.argv = {"redis-cli", "-p", std::to_string(redis_.port()), "XRANGE", stream, "-", "+"}});
    return found.output.find(text) != std::string::npos ? "yes" : "no";
}

// Run statements in a transaction that stays open.
void Stage::hold(const std::string& statements) {
    held_ = std::make_unique<Connection>(url_, "night shift");
    held_->exec("begin; " + statements);
}

std::string Stage::answer(const std::string& what, const std::string& words) {
    if (what == "sql file")
        return Connection(url_).exec(read_text(fs::path(BATON_SOURCE) / "tests/browser" / words)), "";
    if (what == "run") return Connection(url_).exec(words), "";
    if (what == "sql") return Connection(url_).value(words);
    if (what == "stop broker") return redis_.stop(), "";
    if (what == "start broker") return redis_.start(), "";
    if (what == "kill relay") return relay_->signal(SIGKILL), relay_->wait(10s), "";
    if (what == "start relay") return start_relay(), "";
    if (what == "start dashboard") return start_dashboard();
    if (what == "stop dashboard") return dashboard_->stop(), "";
    if (what == "begin") return hold(words), "";
    if (what == "rollback") return held_.reset(), "";
    if (what == "webhook has") return webhook_.has(words) ? "yes" : "no";
    if (what == "broker has") return stream_has("shop.orders", words);
    if (what == "broker has claim") return stream_has("shop.claims", words);
    throw Error("a scenario asks for \"" + what + "\"");
}

std::string Stage::play(const std::string& scenario) {
    const std::string said =
        test::play(scenario, address(port_), folder_.path(),
                   [this](const std::string& what, const std::string& words) { return answer(what, words); });
    if (said.empty()) return "";
    return said + "\nthe relay's log:\n" + last_lines(read_text(folder_ / "relay.log"), 20);
}

}  // namespace baton::test
