// The embedded server: up, down, and everything that can stand in their way.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "base/file.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;
using local_server::LocalServer;

namespace {

bool contains(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

LocalServer server_in(const fs::path& folder) {
    return LocalServer({folder, 0, false, false, {}});
}

// Stops what a test left running, whatever its outcome.
struct StopAtEnd {
    fs::path folder;
    ~StopAtEnd() {
        try {
            server_in(folder).stop(LocalServer::Stop::immediate);
        } catch (const std::exception&) {  // it was never there
        }
    }
};

Ran up(const fs::path& folder, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"up", "--data-dir", folder.string(), "--detach"};
    words.insert(words.end(), more.begin(), more.end());
    return run_baton(words);
}

Ran down(const fs::path& folder) {
    return run_baton({"down", "--data-dir", folder.string()});
}

void expect_refusal(const Ran& ran, const std::string& sentence, const std::string& hint) {
    EXPECT_EQ(ran.exit_code, 1) << ran.errors;
    EXPECT_EQ(ran.output, "");
    EXPECT_TRUE(contains(ran.errors, "baton: ")) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, sentence)) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, "hint: ") && contains(ran.errors, hint)) << ran.errors;
}

// A port that somebody else listens on.
class TakenPort {
  public:
    explicit TakenPort(int port = 0) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const int reuse = 1;
        ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        socklen_t length = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
            ::listen(listener_, 1) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
            throw Error("cannot take a port");
        port_ = ntohs(address.sin_port);
    }
    ~TakenPort() { ::close(listener_); }
    TakenPort(const TakenPort&) = delete;
    TakenPort& operator=(const TakenPort&) = delete;
    int port() const { return port_; }

  private:
    int listener_;
    int port_ = 0;
};

// A small file system of its own.
class SmallDisk {
  public:
    SmallDisk(fs::path folder, int megabytes) : folder_(std::move(folder)) {
        fs::create_directories(folder_);
        const std::string options = "size=" + std::to_string(megabytes) + "m,mode=0755";
        mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
    ~SmallDisk() {
        if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    bool mounted() const { return mounted_; }

  private:
    fs::path folder_;
    bool mounted_ = false;
};

}  // namespace

TEST(Up, prints_a_url_that_works_as_its_last_line) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const auto ran = up(folder / "d");
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    Connection db(ran.last_line());
    EXPECT_EQ(db.value("select form from baton.installation"), "extension");
    EXPECT_EQ(db.value("select current_user || ' ' || current_database()"), "app app");
    EXPECT_EQ(db.value("show fsync"), "on");
    EXPECT_EQ(db.value("show unix_socket_directories"), "\"" + (folder / "d").string() + "\"");
}

TEST(Up, tells_programs_where_the_server_is) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const auto first = up(folder / "d", {"--json"});
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    const auto server = server_in(folder / "d");
    const std::string told = R"("port":)" + std::to_string(server.port()) + R"(,"data_dir":")" +
                             (folder / "d").string() + R"(","was_running":)";
    EXPECT_TRUE(first.output.starts_with(R"({"url":"postgresql://)")) << first.output;
    EXPECT_TRUE(contains(first.output, told + "false}\n")) << first.output;
    EXPECT_TRUE(contains(up(folder / "d", {"--json"}).output, told + "true}\n"));
}

TEST(Up, what_the_user_makes_without_naming_a_schema_lands_in_public) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    Connection db(up(folder / "d").last_line());
    db.exec("create table orders (id int primary key); select baton.create_outbox('order_events')");
    EXPECT_EQ(db.value("select string_agg(distinct relnamespace::regnamespace::text, ' ') from pg_class "
                       "where relname in ('orders', 'order_events')"),
              "public");
}

TEST(Up, twice_is_the_same_as_once) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const auto first = up(folder / "d");
    const pid_t postmaster = server_in(folder / "d").pid();
    const auto second = up(folder / "d");
    EXPECT_EQ(second.exit_code, 0);
    EXPECT_EQ(second.last_line(), first.last_line());
    EXPECT_EQ(server_in(folder / "d").pid(), postmaster);
}

TEST(Up, plain_sql_is_installed_when_asked_for) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    Connection db(up(folder / "d", {"--mode", "sql"}).last_line());
    EXPECT_EQ(db.value("select form from baton.installation"), "sql");
    EXPECT_EQ(db.value("show shared_preload_libraries"), "");
}

TEST(Up, the_data_and_the_port_outlive_down) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const std::string url = up(folder / "d").last_line();
    Connection(url).exec("create table kept as select 42 as n");
    EXPECT_EQ(down(folder / "d").exit_code, 0);
    EXPECT_FALSE(server_in(folder / "d").running());
    EXPECT_FALSE(server_in(folder / "d").crashed());
    EXPECT_EQ(up(folder / "d").last_line(), url);
    EXPECT_EQ(Connection(url).value("select n from kept"), "42");
}

TEST(Up, a_path_with_spaces_works) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "my events"};
    const auto ran = up(folder / "my events");
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(run_baton({"status", "--data-dir", (folder / "my events").string()}).exit_code, 0);
    EXPECT_EQ(down(folder / "my events").exit_code, 0);
}

TEST(Up, in_the_foreground_it_stays_until_a_signal_and_stops_cleanly) {
    for (const int number : {SIGTERM, SIGINT}) {
        const TemporaryFolder folder;
        const StopAtEnd end{folder / "d"};
        auto process =
            start_baton({"up", "--data-dir", (folder / "d").string()}, folder / "out", folder / "err");
        wait_until("the url is printed", [&] { return contains(read_text(folder / "out"), "\n"); });
        EXPECT_EQ(Connection(last_lines(read_text(folder / "out"), 1)).value("select 1"), "1");
        EXPECT_TRUE(process.running());
        process.signal(number);
        EXPECT_EQ(process.wait(std::chrono::seconds(60)), 0) << read_text(folder / "err");
        EXPECT_FALSE(server_in(folder / "d").running());
        EXPECT_FALSE(server_in(folder / "d").crashed());
    }
}

TEST(Up, in_the_foreground_it_ends_when_the_server_is_stopped_from_outside) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    auto process = start_baton({"up", "--data-dir", (folder / "d").string()}, folder / "out", folder / "err");
    wait_until("the url is printed", [&] { return contains(read_text(folder / "out"), "\n"); });
    EXPECT_EQ(down(folder / "d").exit_code, 0);
    EXPECT_EQ(process.wait(std::chrono::seconds(60)), 0) << read_text(folder / "err");
}

TEST(Up, in_the_foreground_a_crash_of_the_server_is_a_failure) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    auto process = start_baton({"up", "--data-dir", (folder / "d").string()}, folder / "out", folder / "err");
    wait_until("the url is printed", [&] { return contains(read_text(folder / "out"), "\n"); });
    server_in(folder / "d").kill_hard();
    EXPECT_EQ(process.wait(std::chrono::seconds(60)), 1);
    EXPECT_TRUE(contains(read_text(folder / "err"), "ended unexpectedly")) << read_text(folder / "err");
}

TEST(Up, recovers_what_was_committed_before_a_crash) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const std::string url = up(folder / "d").last_line();
    Connection(url).exec("create table kept as select 42 as n");
    server_in(folder / "d").kill_hard();
    EXPECT_TRUE(server_in(folder / "d").crashed());
    const auto again = up(folder / "d");
    ASSERT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_EQ(again.last_line(), url);
    EXPECT_EQ(Connection(url).value("select n from kept"), "42");
}

TEST(Up, recovers_when_only_the_postmaster_was_killed) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const std::string url = up(folder / "d").last_line();
    Connection orphan(url);  // its backend lives on for a while
    const pid_t postmaster = server_in(folder / "d").pid();
    ::kill(postmaster, SIGKILL);
    wait_until("it is dead", [&] { return !process_alive(postmaster); });
    const auto again = up(folder / "d");
    ASSERT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_EQ(Connection(again.last_line()).value("select 1"), "1");
}

TEST(Up, survives_a_pid_file_whose_number_belongs_to_another_program_by_now) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    ASSERT_EQ(up(folder / "d").exit_code, 0);
    server_in(folder / "d").kill_hard();
    const auto pid_file = folder / "d/data/postmaster.pid";
    struct stat owner {};
    ASSERT_EQ(::stat(pid_file.c_str(), &owner), 0);
    // Of the server's own account: the server itself would take this for another server and refuse to start.
    Process other(
        {.argv = {"sleep", "3600"},
         .account = ::geteuid() == 0 ? std::optional(Account{owner.st_uid, owner.st_gid}) : std::nullopt});
    const std::string text = read_text(pid_file);
    write_text(pid_file, std::to_string(other.pid()) + text.substr(text.find('\n')));
    EXPECT_FALSE(server_in(folder / "d").running());
    const auto again = up(folder / "d");
    EXPECT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_TRUE(other.running());
}

TEST(Up, makes_anew_what_a_killed_creation_left) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    auto process = start_baton({"up", "--data-dir", (folder / "d").string()}, folder / "out", folder / "err");
    wait_until("the cluster is being made", [&] { return fs::exists(folder / "d/data"); });
    process.signal(SIGKILL);
    process.wait(std::chrono::seconds(60));
    ASSERT_TRUE(fs::exists(folder / "d/baton.creating"));
    const auto again = up(folder / "d");
    ASSERT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_EQ(Connection(again.last_line()).value("select count(*) from baton.installation"), "1");
}

TEST(Up, interrupted_while_it_makes_the_server_leaves_nothing) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "a/b/d"};
    auto process =
        start_baton({"up", "--data-dir", (folder / "a/b/d").string()}, folder / "out", folder / "err");
    wait_until("the cluster is being made", [&] { return fs::exists(folder / "a/b/d/data"); });
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait(std::chrono::seconds(60)), 1);
    EXPECT_TRUE(contains(read_text(folder / "err"), "interrupted")) << read_text(folder / "err");
    EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST(Up, several_at_once_make_one_server) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    std::vector<Process> processes;
    for (int n = 0; n < 4; ++n)
        processes.push_back(start_baton({"up", "--data-dir", (folder / "d").string(), "--detach"},
                                        folder / ("out" + std::to_string(n)),
                                        folder / ("err" + std::to_string(n))));
    std::set<std::string> urls;
    for (int n = 0; n < 4; ++n) {
        EXPECT_EQ(processes[static_cast<std::size_t>(n)].wait(std::chrono::seconds(120)), 0)
            << read_text(folder / ("err" + std::to_string(n)));
        urls.insert(last_lines(read_text(folder / ("out" + std::to_string(n))), 1));
    }
    EXPECT_EQ(urls.size(), 1U);
    EXPECT_EQ(Connection(*urls.begin()).value("select 1"), "1");
}

TEST(Up, a_taken_port_is_refused_and_nothing_is_left) {
    const TemporaryFolder folder;
    const TakenPort taken;
    expect_refusal(up(folder / "new/d", {"--port", std::to_string(taken.port())}),
                   "port " + std::to_string(taken.port()) + " is taken", "--port");
    EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(Up, moves_to_a_free_port_when_the_old_one_is_taken_and_none_is_asked_for) {
    const TemporaryFolder folder;
    const StopAtEnd end{folder / "d"};
    const std::string first = up(folder / "d").last_line();
    const int port = server_in(folder / "d").port();
    ASSERT_EQ(down(folder / "d").exit_code, 0);
    const TakenPort taken(port);
    expect_refusal(up(folder / "d", {"--port", std::to_string(port)}), "is taken", "--port");
    const auto moved = up(folder / "d");
    ASSERT_EQ(moved.exit_code, 0) << moved.errors;
    EXPECT_NE(moved.last_line(), first);
    EXPECT_EQ(Connection(moved.last_line()).value("select 1"), "1");
}

TEST(Up, another_servers_data_directory_is_refused_and_left_alone) {
    const TemporaryFolder folder;
    fs::create_directories(folder / "pg");
    write_text(folder / "pg/PG_VERSION", "15\n");
    expect_refusal(up(folder / "pg"), "holds the data of another PostgreSQL server", "baton init --db");
    EXPECT_EQ(read_text(folder / "pg/PG_VERSION"), "15\n");
    fs::create_directories(folder / "mine");
    write_text(folder / "mine/letter", "dear");
    expect_refusal(up(folder / "mine"), "not empty", "choose another");
    EXPECT_EQ(read_text(folder / "mine/letter"), "dear");
    write_text(folder / "file", "");
    expect_refusal(up(folder / "file"), "is not a folder", "choose another");
    expect_refusal(up(folder / "file/d"), "is not a folder", "choose another");
}

TEST(Up, paths_that_no_server_can_take_are_refused) {
    const TemporaryFolder folder;
    expect_refusal(up(folder / std::string(100, 'x')), "too long", "shorter");
    for (const char* name : {"a'b", "a\"b", "a,b", "a$b", "a`b", "a\\b"})
        expect_refusal(up(folder / name), "character", "choose a data directory without");
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Up, a_full_disk_is_said_and_nothing_is_left) {
    const TemporaryFolder folder;
    bool refused = false;
    for (const int megabytes :
         {4, 12, 24, 44}) {  // too small for the programs, the cluster, its journal, baton
        const SmallDisk disk(folder / "disk", megabytes);
        if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
        const StopAtEnd end{folder / "disk/d"};
        const auto ran = up(folder / "disk/d");
        if (ran.exit_code == 0) continue;
        refused = true;
        expect_refusal(ran, "the disk is full", "free some space");
        EXPECT_TRUE(fs::is_empty(folder / "disk")) << megabytes;
    }
    EXPECT_TRUE(refused);
}

TEST(Down, says_when_there_is_nothing_to_stop) {
    const TemporaryFolder folder;
    expect_refusal(down(folder / "none"), "no baton server in", "--data-dir");
    EXPECT_FALSE(fs::exists(folder / "none"));
    const StopAtEnd end{folder / "d"};
    ASSERT_EQ(up(folder / "d").exit_code, 0);
    EXPECT_EQ(down(folder / "d").exit_code, 0);
    const auto again = down(folder / "d");
    EXPECT_EQ(again.exit_code, 0);
    EXPECT_TRUE(contains(again.errors, "is not running")) << again.errors;
}
