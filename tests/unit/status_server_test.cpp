// Endpoints that answer whoever else is there.

#include "server/status_server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <optional>

#include "support/drip.hpp"

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
