#pragma once
// A program that serves the API, and somebody who asks it.

#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/process.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

using Json = nlohmann::json;

constexpr const char* anns_token = "anns-token-0123456789";  // an operator
constexpr const char* vics_token = "vics-token-0123456789";  // a viewer

struct Said {
    int status = 0;
    Json body;
    httplib::Headers headers;
};

class Api : public testing::Test {
  protected:
    Api() {
        admin.exec(
            "select baton.create_outbox('orders'), baton.create_consumer_group('billing', 'orders', "
            "'earliest', "
            "max_attempts => 1)");
        write_text(folder / "tokens",
                   std::string("ann operator ") + anns_token + "\nvic viewer " + vics_token + "\n");
    }

    // Start `baton dashboard`; it has said its address when this returns.
    Process start_dashboard(const std::string& db, std::vector<std::string> more = {}) {
        std::vector<std::string> words{"dashboard", "--db", db, "--listen",
                                       "127.0.0.1:" + std::to_string(port)};
        words.insert(words.end(), more.begin(), more.end());
        auto started = start_baton(words, folder / "out", folder / "log");
        wait_until("the dashboard listens", [&] { return ask("/livez").status == 200; });
        return started;
    }
    Process start_dashboard() { return start_dashboard(url, {"--token-file", (folder / "tokens").string()}); }

    httplib::Client client() const {
        httplib::Client http("127.0.0.1", port);
        http.set_read_timeout(std::chrono::seconds(60));
        return http;
    }
    static Said said(const httplib::Result& result) {
        if (!result) return {0, httplib::to_string(result.error()), {}};
        return {result->status, Json::parse(result->body, nullptr, false), result->headers};
    }
    static httplib::Headers token(const std::string& value) { return {{"Authorization", "Bearer " + value}}; }

    Said ask(const std::string& path, const httplib::Headers& headers = {}) const {
        return said(client().Get(path, headers));
    }
    Said get(const std::string& path, const httplib::Headers& headers = {}) const {
        return ask("/api/v1" + path, headers);
    }
    Said post(const std::string& path, const Json& body,
              const httplib::Headers& headers = token(anns_token)) const {
        return said(client().Post("/api/v1" + path, headers, body.dump(), "application/json"));
    }
    Said put(const std::string& path, const Json& body,
             const httplib::Headers& headers = token(anns_token)) const {
        return said(client().Put("/api/v1" + path, headers, body.dump(), "application/json"));
    }

    // Three events of which the group gives up all.
    void make_dead_letters() {
        admin.exec(
            "select baton.publish('orders', 'order.created', jsonb_build_object('n', n), aggregate_id => "
            "n::text) "
            "from generate_series(1, 3) n");
        admin.exec(R"sql(
            select baton.fail_events('billing', 'c1', array_agg(id), 'no', lease_token => (array_agg(lease_token))[1]) from baton.poll_outbox('billing', 'c1', 10))sql");
    }

    Cluster& cluster = shared_cluster(Form::plain);
    TemporaryFolder folder;
    std::string url = cluster.fresh_database();
    Connection admin{url};
    int port = find_free_port();
};

}  // namespace baton::test
