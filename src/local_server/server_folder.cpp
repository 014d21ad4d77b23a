#include "local_server/server_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "base/file.hpp"
#include "base/process.hpp"
#include "baton/error.hpp"

namespace fs = std::filesystem;

namespace baton::local_server {

namespace {

constexpr std::size_t longest_socket_path = 107;

struct stat status_of(const fs::path& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0)
        throw Error("cannot look at " + folder.string() + ": " + std::strerror(errno));
    return status;
}

}  // namespace

void check_folder_path(const fs::path& folder) {
    if ((folder / ".s.PGSQL.65535").string().size() > longest_socket_path)
        throw UsageError("the folder's path is too long for a socket: " + folder.string(),
                         "choose a data directory with a shorter path");
    for (const char c : folder.string())
        if (std::strchr("'\"`$\\,\n", c) != nullptr)
            throw UsageError(
                "the folder's path has a character that a server cannot take: " + folder.string(),
                "choose a data directory without quotes, commas, dollars and backslashes in its path");
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) {
        if (errno == EACCES)
            throw UsageError("you may not look into the folder that holds " + folder.string(),
                             "choose another data directory");
        if (errno == ENOTDIR)
            throw UsageError("a part of " + folder.string() + " is not a folder",
                             "choose another data directory");
        return;  // not there yet
    }
    if (!S_ISDIR(status.st_mode))
        throw UsageError(folder.string() + " is not a folder", "choose another data directory");
    if (::eaccess(folder.c_str(), R_OK | X_OK) != 0)
        throw UsageError("the folder " + folder.string() + " belongs to account " +
                             account_name(status.st_uid) + ", and you may not look into it",
                         "run baton as that account, or choose another data directory");
}

void check_folder_is_ours(const fs::path& folder, uid_t server_account) {
    const bool ours = fs::exists(folder / "baton.server") || fs::exists(folder / "baton.creating");
    const bool empty = fs::is_empty(folder);
    if (!ours && (fs::exists(folder / "PG_VERSION") || fs::exists(folder / "data/PG_VERSION")))
        throw UsageError(
            "the folder " + folder.string() + " holds the data of another PostgreSQL server",
            "choose another data directory, or install baton in that server with baton init --db URL");
    if (!ours && !empty)
        throw UsageError("the folder " + folder.string() + " is not empty and not a baton server's",
                         "choose another data directory");
    const uid_t owner = status_of(folder).st_uid;
    const bool can_be_given = empty && ::geteuid() == 0 && owner == 0;
    if (owner != server_account && !can_be_given)
        throw UsageError("the folder " + folder.string() + " belongs to account " + account_name(owner) +
                             ", but the server would run as " + account_name(server_account),
                         "run baton as that account, or choose another data directory");
}

void clear_folder(const fs::path& folder) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        if (entry.path().filename() == "baton.creating") continue;
        std::error_code failed;
        fs::remove_all(entry.path(), failed);
    }
    fs::remove(folder / "baton.creating", ignored);  // last: until then the rest is known to be ours
}

void remove_empty(const std::vector<fs::path>& folders) {
    for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
        std::error_code ignored;
        fs::remove(*folder, ignored);
    }
}

void throw_as_error(const fs::filesystem_error& problem) {
    if (problem.code() == std::errc::no_space_on_device)
        throw_disk_full((problem.path2().empty() ? problem.path1() : problem.path2()).parent_path());
    throw Error("cannot use " + problem.path1().string() + ": " + problem.code().message());
}

std::string random_password() {
    constexpr std::string_view letters = "abcdefghjkmnpqrstuvwxyz23456789";
    std::random_device random;
    std::string password;
    while (password.size() < 24) password += letters[random() % letters.size()];
    return password;
}

FolderState::FolderState(fs::path folder) : folder_(std::move(folder)) {
    const auto status = status_of(folder_);
    owner_ = status.st_uid;
    group_ = status.st_gid;
    mode_ = status.st_mode & 07777;
}

void FolderState::restore() const {
    struct stat status {};
    if (::stat(folder_.c_str(), &status) != 0) return;
    if (status.st_uid != owner_ || status.st_gid != group_) [[maybe_unused]]
        const int given = ::lchown(folder_.c_str(), owner_, group_);
    if ((status.st_mode & 07777) != mode_) ::chmod(folder_.c_str(), mode_);
}

}  // namespace baton::local_server
