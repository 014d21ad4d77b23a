#pragma once
// Files and folders: whole texts, errors that name the full disk, a lock on a folder, and writing as another
// account.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/process.hpp"

namespace baton {

// Return the text of a file; empty when the file is missing or may not be read.
std::string read_text(const std::filesystem::path& path);
// Write the whole file anew; throws Error, naming the disk when it is full.
void write_text(const std::filesystem::path& path, std::string_view text);

// The last non-empty lines of a text.
std::string last_lines(std::string_view text, int count);

// The error for a full disk below this folder.
[[noreturn]] void throw_disk_full(const std::filesystem::path& folder);
// True when a program's words say that the disk is full.
bool says_disk_full(std::string_view words);

// While this object lives, the thread touches files with the rights of the account only. So root follows no
// link that the account has laid. Without an account the object does nothing. Start no process meanwhile.
class ActingAs {
  public:
    explicit ActingAs(const std::optional<Account>& account);
    ~ActingAs();
    ActingAs(const ActingAs&) = delete;
    ActingAs& operator=(const ActingAs&) = delete;

  private:
    bool acting_;
};

// An exclusive lock on a folder, between processes. The constructor waits for the lock; the kernel drops the
// lock when its holder dies.
class FolderLock {
  public:
    // Throws Error when the folder is not there.
    explicit FolderLock(const std::filesystem::path& folder);
    ~FolderLock();
    FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    FolderLock& operator=(FolderLock&&) = delete;

    // True while the path still names the folder that is locked: somebody may have removed the folder before
    // we got the lock.
    bool holds(const std::filesystem::path& folder) const;

  private:
    int descriptor_;
};

}  // namespace baton
