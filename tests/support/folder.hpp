#pragma once
// A folder that goes away with its object.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "baton/error.hpp"

namespace baton::test {

class Folder {
  public:
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "baton-folder-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr)
            throw Error("cannot make a folder below the temporary directory");
        path_ = pattern;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

}  // namespace baton::test
