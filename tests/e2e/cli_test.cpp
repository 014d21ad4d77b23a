// The command line itself: what it refuses, and how it finds a server.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "baton/version.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

using namespace baton;
using namespace baton::test;

namespace {

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

// Every refusal has this form: one sentence, one hint, nothing on stdout.
void expect_refusal(const Ran& ran, int exit_code, const std::string& sentence, const std::string& hint) {
    EXPECT_EQ(ran.exit_code, exit_code) << ran.errors;
    EXPECT_EQ(ran.output, "");
    EXPECT_TRUE(ran.errors.starts_with("baton: ")) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, sentence)) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, "\nhint: ")) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, hint)) << ran.errors;
    EXPECT_EQ(std::count(ran.errors.begin(), ran.errors.end(), '\n'), 2) << ran.errors;
}

// Says just enough of the protocol to be taken for a server of the given version.
class FakeServer {
  public:
    explicit FakeServer(std::string version) : version_(std::move(version)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
            ::listen(listener_, 5) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
            throw Error("cannot listen");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeServer() {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
    }
    std::string url() const {
        return "host=127.0.0.1 port=" + std::to_string(port_) +
               " user=u dbname=d sslmode=disable gssencmode=disable";
    }

  private:
    static std::string message(char type, const std::string& body) {
        const std::uint32_t length = htonl(static_cast<std::uint32_t>(body.size() + 4));
        return std::string(1, type) + std::string(reinterpret_cast<const char*>(&length), 4) + body;
    }
    void serve() {
        for (int client = 0; (client = ::accept(listener_, nullptr, nullptr)) >= 0;) {
            std::array<char, 4096> startup{};
            if (::read(client, startup.data(), startup.size()) > 0) {
                const std::string greeting =
                    message('R', std::string(4, '\0')) +
                    message('S', std::string("server_version") + '\0' + version_ + '\0') +
                    message('K', std::string(8, '\1')) + message('Z', "I");
                [[maybe_unused]] const auto sent = ::write(client, greeting.data(), greeting.size());
                while (::read(client, startup.data(), startup.size()) > 0) {
                }
            }
            ::close(client);
        }
    }

    std::string version_;
    int listener_ = -1;
    int port_ = 0;
    std::thread thread_;
};

}  // namespace

TEST(CommandLine, version_is_printed) {
    const auto ran = run_baton({"version"});
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_EQ(ran.output, std::string("baton ") + version() + "\n");
    const auto flag = run_baton({"--version"});
    EXPECT_EQ(flag.exit_code, 0);
    EXPECT_EQ(flag.output, ran.output);
}

TEST(CommandLine, alone_it_prints_what_there_is) {
    const auto ran = run_baton({});
    EXPECT_EQ(ran.exit_code, 0);
    for (const char* command : {"up", "down", "init", "status", "version", "Exit codes"})
        EXPECT_TRUE(contains(ran.output, command)) << command;
}

TEST(CommandLine, every_command_explains_itself) {
    for (const char* command : {"up", "down", "init", "status"}) {
        const auto ran = run_baton({command, "--help"});
        EXPECT_EQ(ran.exit_code, 0);
        EXPECT_TRUE(contains(ran.output, "--data-dir")) << ran.output;
    }
}

TEST(CommandLine, unknown_commands_and_options_are_usage_errors) {
    expect_refusal(run_baton({"fly"}), 2, "unknown command 'fly'", "baton --help");
    expect_refusal(run_baton({"up", "--fast"}), 2, "unknown option '--fast'", "baton up --help");
    expect_refusal(run_baton({"--fast"}), 2, "unknown option '--fast'", "baton --help");
    expect_refusal(run_baton({"down", "now"}), 2, "unexpected word 'now'", "baton down --help");
    expect_refusal(run_baton({"seek"}), 2, "GROUP is required", "baton seek --help");
}

TEST(CommandLine, values_that_make_no_sense_are_usage_errors) {
    expect_refusal(run_baton({"up", "--port", "0"}), 2, "--port", "baton up --help");
    expect_refusal(run_baton({"up", "--port", "70000"}), 2, "--port", "baton up --help");
    expect_refusal(run_baton({"up", "--port", "many"}), 2, "--port", "baton up --help");
    expect_refusal(run_baton({"up", "--port"}), 2, "--port", "baton up --help");
    expect_refusal(run_baton({"init", "--mode", "fancy"}), 2, "--mode", "baton init --help");
    expect_refusal(run_baton({"init", "--db", "postgresql://[x"}), 2, "--db", "baton init --help");
}

TEST(Target, nothing_to_talk_to_is_said_with_both_ways_out) {
    const TemporaryFolder folder;
    for (const char* command : {"init", "status"})
        expect_refusal(run_baton({command, "--data-dir", folder / "none"}), 1, "no server to talk to",
                       "baton up --detach");
    EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(Target, an_unreachable_server_is_said_in_one_sentence) {
    const std::string url = "postgresql://u@127.0.0.1:" + std::to_string(find_free_port()) + "/d";
    expect_refusal(run_baton({"init", "--db", url}), 1, "Connection refused", "baton up");
    expect_refusal(run_baton({"status"}, {{"BATON_DB", url}}), 1, "Connection refused", "BATON_DB");
}

TEST(Target, a_malformed_environment_variable_is_named) {
    expect_refusal(run_baton({"status"}, {{"BATON_DB", "postgresql://[x"}}), 1, "BATON_DB", "postgresql://");
}

TEST(Target, a_server_below_14_is_refused) {
    const FakeServer server("13.11");
    for (const char* command : {"init", "status"})
        expect_refusal(run_baton({command, "--db", server.url()}), 1,
                       "PostgreSQL 13.11, and baton needs 14 or later", "upgrade the server");
}

TEST(Target, refused_logins_and_missing_databases_say_what_to_mend) {
    auto& server = shared_cluster(Form::plain).server();
    Connection(server.url()).exec("create role visitor login password 'right'");
    const std::string tcp = "host=127.0.0.1 port=" + std::to_string(server.port()) + " user=visitor ";
    expect_refusal(run_baton({"status", "--db", tcp + "password=wrong dbname=postgres"}), 1,
                   "authentication failed", "password");
    expect_refusal(run_baton({"status", "--db", tcp + "password=right dbname=nowhere"}), 1, "nowhere",
                   "create the database first");
    expect_refusal(run_baton({"status", "--db", server.url("postgres", "nobody_here")}), 1, "nobody_here",
                   "create the role first");
}

TEST(Status, the_environment_names_the_server_and_the_flag_wins) {
    auto& cluster = shared_cluster(Form::plain);
    const auto installed = cluster.fresh_database();
    const auto ran = run_baton({"status"}, {{"BATON_DB", installed}});
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_TRUE(contains(ran.output, "named by BATON_DB")) << ran.output;
    EXPECT_TRUE(contains(ran.output, "plain SQL")) << ran.output;
    EXPECT_EQ(run_baton({"status", "--db", installed}, {{"BATON_DB", cluster.empty_database()}}).exit_code,
              0);
}

TEST(Status, a_database_without_baton_is_a_failure_with_a_way_on) {
    expect_refusal(run_baton({"status", "--db", shared_cluster(Form::plain).empty_database()}), 1,
                   "baton is not installed", "baton init");
}
