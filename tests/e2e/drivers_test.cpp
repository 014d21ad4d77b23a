// What a user's driver sends is what baton takes.

#include <gtest/gtest.h>

#include <filesystem>

#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

class Drivers : public testing::TestWithParam<Form> {};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Drivers, testing::Values(Form::extension, Form::plain),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Drivers, psycopg_publishes_with_text_numbers_and_uuids_as_ids) {
    const auto url = shared_cluster(GetParam()).fresh_database();
    Connection(url).exec("select baton.create_outbox('events')");
    const auto script = fs::path(BATON_SOURCE) / "tests/e2e/publish_with_psycopg.py";
    const auto ran = run_separately({.argv = {"/usr/bin/python3", script.string(), url}});
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.output,
              "00000000-0000-0000-0000-000000000007 order.placed 1 2 psycopg\n"
              "2 order.placed 1 2 psycopg\n"
              "5000000000 order.placed 1 2 psycopg\n"
              "70000 order.placed 1 2 psycopg\n"
              "o-1 order.placed 1 2 psycopg\n"
              "None order.placed 1 2 psycopg\n"
              "36\n"
              "BT006 the event is too large: payload and headers have 2000002 bytes, 1048576 are allowed\n");
}
