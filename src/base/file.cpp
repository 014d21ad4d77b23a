#include "base/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

#include "baton/error.hpp"

namespace fs = std::filesystem;

namespace baton {

std::string read_text(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    return text.str();
}

void write_text(const fs::path& path, std::string_view text) {
    errno = 0;
    std::ofstream file(path, std::ios::trunc | std::ios::binary);
    file << text;
    file.close();
    if (file) return;
    const int error = errno;
    if (error == ENOSPC || error == EDQUOT) throw_disk_full(path.parent_path());
    throw Error("cannot write " + path.string() + ": " + std::strerror(error));
}

std::string last_lines(std::string_view text, int count) {
    std::istringstream lines{std::string(text)};
    std::deque<std::string> kept;
    for (std::string line; std::getline(lines, line);) {
        if (line.empty()) continue;
        kept.push_back(line);
        if (kept.size() > static_cast<std::size_t>(count)) kept.pop_front();
    }
    std::string joined;
    for (const auto& line : kept) joined += (joined.empty() ? "" : "\n") + line;
    return joined;
}

void throw_disk_full(const fs::path& folder) {
    throw Error("the disk is full at " + folder.string(),
                "free some space there (a server needs about 100 MB to begin with), or choose another data "
                "directory");
}

bool says_disk_full(std::string_view words) {
    return words.find("No space left on device") != std::string_view::npos ||
           words.find("Disk quota exceeded") != std::string_view::npos;
}

ActingAs::ActingAs(const std::optional<Account>& account) : acting_(account && ::geteuid() == 0) {
    if (!acting_) return;
    // The system calls and not the library's functions, which would change every thread of the process.
    if (::syscall(SYS_setresgid, -1, account->gid, -1) != 0 ||
        ::syscall(SYS_setresuid, -1, account->uid, -1) != 0)
        throw Error("cannot act as account " + account_name(account->uid) + ": " + std::strerror(errno));
}

ActingAs::~ActingAs() {
    if (!acting_) return;
    if (::syscall(SYS_setresuid, -1, ::getuid(), -1) != 0 ||
        ::syscall(SYS_setresgid, -1, ::getgid(), -1) != 0)
        std::abort();  // going on with the wrong rights would be worse
}

FolderLock::FolderLock(const fs::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error("cannot open " + folder.string() + ": " + std::strerror(errno));
    while (::flock(descriptor_, LOCK_EX) != 0) {
        if (errno == EINTR) continue;
        const int error = errno;
        ::close(descriptor_);
        throw Error("cannot lock " + folder.string() + ": " + std::strerror(error));
    }
}

FolderLock::~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

bool FolderLock::holds(const fs::path& folder) const {
    struct stat locked {};
    struct stat named {};
    return ::fstat(descriptor_, &locked) == 0 && ::stat(folder.c_str(), &named) == 0 &&
           locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

}  // namespace baton
