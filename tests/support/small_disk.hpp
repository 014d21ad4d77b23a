#pragma once
// A small file system of its own, which can be full.

#include <filesystem>
#include <string>

#include "support/folder.hpp"

namespace baton::test {

class SmallDisk {
  public:
    // Throws Unavailable where mounting is not allowed.
    explicit SmallDisk(int megabytes);
    ~SmallDisk();
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    const std::filesystem::path& path() const { return folder_.path(); }
    std::filesystem::path operator/(const char* name) const { return folder_ / name; }
    // Take all the room that is left, and give it back.
    void fill() const;
    void relieve() const;

  private:
    Folder folder_;
};

}  // namespace baton::test
