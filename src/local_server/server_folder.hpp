#pragma once
// The folder of a private server: checks before it is used, and how it is emptied and given back.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace baton::local_server {

// Refuse a path that a socket, the server's settings or a connection string cannot hold, or that we may not
// look into.
void check_folder_path(const std::filesystem::path& folder);
// Refuse a folder that holds something else, or that belongs to another account than the server's.
void check_folder_is_ours(const std::filesystem::path& folder, uid_t server_account);

// Delete what is in the folder, as far as the system allows.
void clear_folder(const std::filesystem::path& folder);
// Delete these folders where they are empty, the last first.
void remove_empty(const std::vector<std::filesystem::path>& folders);

// Throw Error for a failed file operation. The error names the disk when the disk is full.
[[noreturn]] void throw_as_error(const std::filesystem::filesystem_error& problem);

std::string random_password();

// Owner and permissions of a folder at one moment, to give them back.
class FolderState {
  public:
    explicit FolderState(std::filesystem::path folder);
    void restore() const;

  private:
    std::filesystem::path folder_;
    uid_t owner_;
    gid_t group_;
    mode_t mode_;
};

}  // namespace baton::local_server
