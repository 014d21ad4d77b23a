#pragma once
// A private server's view of a PostgreSQL installation: a tree of links to the system's, with baton's
// extension added.
//
// The server finds its files relative to its own binary. So a tree with copies of a few programs and links to
// everything else is a full installation for the server. An extension can be put into this tree without
// touching a system folder.

#include <filesystem>
#include <optional>
#include <string>

#include "base/process.hpp"

namespace baton::local_server {

class ServerRoot {
  public:
    // The tree is written with the rights of the account, so everything in the tree belongs to the account.
    ServerRoot(std::filesystem::path root, std::optional<Account> account);

    // Make the tree, or bring it up to date with the system's PostgreSQL. The server must not be running.
    void refresh() const;
    // Put the extension's files into the tree. A running server keeps the module that it has loaded.
    void add_extension(const std::filesystem::path& share, const std::filesystem::path& module) const;

    std::filesystem::path program(const std::string& name) const;

    // Where the system keeps modules, programs, and what they share.
    static std::filesystem::path system_modules();
    static std::filesystem::path system_programs();
    static std::filesystem::path system_share();

  private:
    void copy_programs() const;

    std::filesystem::path root_;
    std::optional<Account> account_;
};

}  // namespace baton::local_server
