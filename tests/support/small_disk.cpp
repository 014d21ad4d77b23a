#include "support/small_disk.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/broker.hpp"

namespace baton::test {

SmallDisk::SmallDisk(int megabytes) {
    const std::string size = "size=" + std::to_string(megabytes) + "m";
    if (::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, size.c_str()) != 0)
        throw Unavailable("a small file system cannot be mounted here (" + std::string(std::strerror(errno)) +
                          "): run this as root");
}

SmallDisk::~SmallDisk() {
    ::umount2(folder_.path().c_str(), MNT_DETACH);
}

void SmallDisk::fill() const {
    const int file = ::open((folder_ / "ballast").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) throw Error("the small disk cannot be filled");
    const std::string block(4096, 'b');
    ssize_t written = 0;
    while ((written = ::write(file, block.data(), block.size())) > 0) {
    }
    const bool full = errno == ENOSPC;
    ::close(file);
    if (!full) throw Error("the small disk cannot be filled");
}

void SmallDisk::relieve() const {
    std::filesystem::remove(folder_ / "ballast");
}

}  // namespace baton::test
