#pragma once
// A secret in a file, which is exchanged as operators do: the whole file at once.

#include <string>

#include "base/file.hpp"
#include "support/folder.hpp"

namespace baton::test {

class SecretFile {
  public:
    explicit SecretFile(const std::string& value) { exchange(value); }

    void exchange(const std::string& value) const {
        write_text(folder_ / "secret.new", value + "\n");
        std::filesystem::rename(folder_ / "secret.new", folder_ / "secret");
    }
    // As settings refer to it.
    std::string reference() const { return "${file:" + (folder_ / "secret").string() + "}"; }

  private:
    Folder folder_;
};

}  // namespace baton::test
