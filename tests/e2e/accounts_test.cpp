// The embedded server under root and under an ordinary account.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

uid_t owner_of(const fs::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_uid : static_cast<uid_t>(-1);
}

// An installation that every account can reach, wherever the build is, and a home for an ordinary account.
class Accounts : public testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "acting as two accounts needs root";
        ordinary_ = find_account("nobody");
        ASSERT_TRUE(ordinary_);
        for (const char* part : {"bin", "lib", "share"}) fs::create_directories(folder_ / part);
        fs::copy_file(program_file(), folder_ / "bin/baton");
        fs::copy_file(build_folder() / "lib/baton.so", folder_ / "lib/baton.so");
        fs::copy(build_folder() / "share/baton", folder_ / "share/baton", fs::copy_options::recursive);
        fs::create_directory(folder_ / "home");
        ASSERT_EQ(::chown((folder_ / "home").c_str(), ordinary_->uid, ordinary_->gid), 0);
    }
    void TearDown() override {
        for (const auto& running : started_) {
            const pid_t postmaster = std::atoi(read_text(running / "data/postmaster.pid").c_str());
            if (postmaster > 0) ::kill(postmaster, SIGQUIT);
            wait_until("it is gone", [&] { return !process_alive(postmaster); });
        }
    }

    Ran as_ordinary(const std::vector<std::string>& words) {
        return run_baton(words, {{"HOME", (folder_ / "home").string()}, {"XDG_STATE_HOME", ""}}, ordinary_,
                         folder_ / "bin/baton");
    }
    // Remember a server's folder, to stop it at the end.
    fs::path started(const fs::path& folder) {
        started_.push_back(folder);
        return folder;
    }

    TemporaryFolder folder_;
    std::optional<Account> ordinary_;
    std::vector<fs::path> started_;
};

}  // namespace

TEST_F(Accounts, roots_server_runs_as_postgres_and_owns_its_folder) {
    const auto data = started(folder_ / "d");
    const auto ran = run_baton({"up", "--data-dir", data.string(), "--detach"});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    const auto postgres = find_account("postgres");
    ASSERT_TRUE(postgres);
    for (const char* part : {"", "data", "root", "password", "baton.server", "log"})
        EXPECT_EQ(owner_of(data / part), postgres->uid) << part;
    EXPECT_EQ(run_baton({"down", "--data-dir", data.string()}).exit_code, 0);
}

TEST_F(Accounts, an_ordinary_users_server_lives_in_the_state_folder_and_is_found_there) {
    const auto data = started(folder_ / "home/.local/state/baton");
    const auto ran = as_ordinary({"up", "--detach"});
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(owner_of(data / "data"), ordinary_->uid);
    EXPECT_EQ(Connection(ran.last_line()).value("select form from baton.installation"), "extension");
    const auto status = as_ordinary({"status"});
    EXPECT_EQ(status.exit_code, 0) << status.errors;
    EXPECT_TRUE(contains(status.output, "embedded server in " + data.string())) << status.output;
    EXPECT_EQ(as_ordinary({"down"}).exit_code, 0);
    EXPECT_EQ(as_ordinary({"status"}).exit_code, 1);
}

TEST_F(Accounts, another_accounts_server_is_refused) {
    const auto data = started(folder_ / "d");
    ASSERT_EQ(run_baton({"up", "--data-dir", data.string(), "--detach"}).exit_code, 0);
    for (const auto& words : {std::vector<std::string>{"up", "--detach"}, {"down"}, {"status"}}) {
        auto with_folder = words;
        with_folder.insert(with_folder.end(), {"--data-dir", data.string()});
        const auto ran = as_ordinary(with_folder);
        EXPECT_EQ(ran.exit_code, 1);
        EXPECT_TRUE(contains(ran.errors, "belongs to account postgres")) << ran.errors;
    }
    EXPECT_TRUE(LocalServer({data, 0, false, false, {}}).running());
}

TEST_F(Accounts, an_empty_folder_of_another_account_is_refused_and_left_as_it_was) {
    fs::create_directory(folder_ / "roots");
    auto ran = as_ordinary({"up", "--detach", "--data-dir", (folder_ / "roots").string()});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.errors, "belongs to account root")) << ran.errors;
    EXPECT_EQ(owner_of(folder_ / "roots"), 0U);

    ran = run_baton({"up", "--detach", "--data-dir", (folder_ / "home").string()});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.errors, "belongs to account nobody")) << ran.errors;
    EXPECT_EQ(owner_of(folder_ / "home"), ordinary_->uid);
    EXPECT_TRUE(fs::is_empty(folder_ / "home"));
}

TEST_F(Accounts, a_folder_that_may_not_be_written_is_refused) {
    const auto ran = as_ordinary({"up", "--detach", "--data-dir", (folder_ / "new").string()});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.errors, "cannot make the folder")) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, "hint: ")) << ran.errors;
}

TEST_F(Accounts, root_is_told_when_the_servers_account_cannot_enter) {
    fs::create_directory(folder_ / "closed");
    fs::permissions(folder_ / "closed", fs::perms::owner_all);
    const auto ran = run_baton({"up", "--detach", "--data-dir", (folder_ / "closed/a/d").string()});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(contains(ran.errors, "cannot enter")) << ran.errors;
    EXPECT_TRUE(contains(ran.errors, "hint: ")) << ran.errors;
    EXPECT_TRUE(fs::is_empty(folder_ / "closed"));
}

TEST_F(Accounts, root_follows_no_link_that_the_servers_account_has_laid) {
    const auto data = started(folder_ / "d");
    ASSERT_EQ(run_baton({"up", "--data-dir", data.string(), "--detach"}).exit_code, 0);
    ASSERT_EQ(run_baton({"down", "--data-dir", data.string()}).exit_code, 0);
    write_text(folder_ / "precious", "root's own");
    fs::remove(data / "baton.server");
    fs::create_symlink(folder_ / "precious", data / "baton.server");
    const auto ran = run_baton({"up", "--data-dir", data.string(), "--detach"});
    EXPECT_EQ(ran.exit_code, 1) << ran.errors;
    EXPECT_EQ(read_text(folder_ / "precious"), "root's own");
}
