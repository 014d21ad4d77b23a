// Endpoints that answer whoever else is there.

#include "server/status_server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <optional>

#include "support/drip.hpp"
#include "wire/http_door.hpp"

using namespace baton;

namespace {

server::StatusServer start_server() {
    const auto well = [] { return server::Answer{true, "ok"}; };
    return {"127.0.0.1:0", {[] { return std::string("a 1\n"); }, well, well}};
}

}  // namespace

TEST(StatusServer, requests_that_never_end_hold_up_nobody) {
    const auto endpoints = start_server();
    const test::Dripping drip(endpoints.port(), 40);
    httplib::Client client("127.0.0.1", endpoints.port());
    client.set_read_timeout(std::chrono::seconds(60));
    for (int i = 0; i < 5; ++i) {
        const auto answer = client.Get("/livez");
        ASSERT_TRUE(answer) << httplib::to_string(answer.error());
        EXPECT_EQ(answer->status, 200);
    }
}

TEST(StatusServer, requests_that_never_end_do_not_keep_it_from_ending) {
    std::optional<test::Dripping> drip;
    {
        const auto endpoints = start_server();
        drip.emplace(endpoints.port(), 20);
    }
}

TEST(HttpDoor, while_others_wait_a_request_has_less_time_to_arrive) {
    // Without that they would wait for longer than the client does.
    wire::HttpDoor door({.threads = 2, .request_time = std::chrono::minutes(10)});
    door.Get("/", [](const httplib::Request&, httplib::Response& response) { response.status = 204; });
    const int port = door.bind_to_any_port("127.0.0.1");
    std::thread listener([&door] { door.listen_after_bind(); });
    {
        const test::Dripping drip(port, 10);
        httplib::Client client("127.0.0.1", port);
        client.set_read_timeout(std::chrono::seconds(60));
        const auto answer = client.Get("/");
        EXPECT_TRUE(answer && answer->status == 204);
    }
    door.stop();
    listener.join();
}
