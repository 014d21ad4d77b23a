// Endpoints that answer whoever else is there.

#include "server/status_server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <future>
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

TEST(HttpDoor, many_may_knock_at_once) {
    // Nobody is let in yet: whoever finds no place to wait is not heard at all.
    wire::HttpDoor door({});
    door.Get("/", [](const httplib::Request&, httplib::Response& response) { response.status = 204; });
    const int port = door.take_port("127.0.0.1", 0);
    std::vector<std::future<test::RawConnection>> knocking;
    for (int i = 0; i < 60; ++i)
        knocking.push_back(std::async(std::launch::async, [port] { return test::RawConnection(port); }));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const bool heard = std::ranges::all_of(knocking, [deadline](const auto& one) {
        return one.wait_until(deadline) == std::future_status::ready;
    });
    EXPECT_TRUE(heard);
    std::thread listener([&door] { door.listen_after_bind(); });
    const auto answer = httplib::Client("127.0.0.1", port).Get("/");
    EXPECT_TRUE(answer && answer->status == 204);
    for (auto& one : knocking) one.wait();
    door.stop();
    listener.join();
}

TEST(HttpDoor, a_crowd_takes_no_more_files_than_it_may) {
    wire::HttpDoor door({.threads = 2,
                         .waiting = 10,
                         .request_time = std::chrono::minutes(10),
                         .request_time_in_a_crowd = std::chrono::minutes(10)});
    door.Get("/", [](const httplib::Request&, httplib::Response& response) { response.status = 204; });
    const int port = door.take_port("127.0.0.1", 0);
    std::thread listener([&door] { door.listen_after_bind(); });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    {
        std::vector<test::RawConnection> crowd;
        for (int i = 0; i < 12; ++i) crowd.emplace_back(port);
        std::vector<std::future<std::string>> others;
        for (int i = 0; i < 50; ++i)
            others.push_back(
                std::async(std::launch::async, [port] { return test::RawConnection(port).hear("HTTP"); }));
        const bool gone = std::ranges::all_of(others, [deadline](const auto& one) {
            return one.wait_until(deadline) == std::future_status::ready;
        });
        EXPECT_TRUE(gone) << "whoever finds no place is sent away at once";
        if (!gone) door.stop();
    }
    httplib::Client client("127.0.0.1", port);
    httplib::Result answer = client.Get("/");
    while (!answer && std::chrono::steady_clock::now() < deadline) answer = client.Get("/");
    EXPECT_TRUE(answer && answer->status == 204) << "the crowd has left";
    door.stop();
    listener.join();
}

TEST(HttpDoor, while_others_wait_a_request_has_less_time_to_arrive) {
    // Without that they would wait for longer than the client does.
    wire::HttpDoor door({.threads = 2, .request_time = std::chrono::minutes(10)});
    door.Get("/", [](const httplib::Request&, httplib::Response& response) { response.status = 204; });
    const int port = door.take_port("127.0.0.1", 0);
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
