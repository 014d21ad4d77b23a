#pragma once
// A private server's view of a PostgreSQL installation: a tree of links to the system's, with baton's
// extension added.
//
// The server finds its files relative to its own binary, so a tree with copies of the few programs and links
// to all the rest is a full installation to it, into which an extension can be put without touching a system
// folder.

#include <filesystem>
#include <optional>
#include <string>

#include "base/process.hpp"

namespace baton::local_server {

class ServerRoot {
  public:
    // The tree is written with the rights of the account, so that everything in it belongs to it.
    ServerRoot(std::filesystem::path root, std::optional<Account> account);

    // Make the tree, or bring it up to date with the system's PostgreSQL. The server must not be running.
    void refresh() const;
    // Put the extension's files in; a running server keeps the module it has loaded.
    void add_extension(const std::filesystem::path& share, const std::filesystem::path& module) const;

    std::filesystem::path program(const std::string& name) const;

    // Where the system keeps modules, and programs.
    static std::filesystem::path system_modules();
    static std::filesystem::path system_programs();

  private:
    void copy_programs() const;

    std::filesystem::path root_;
    std::optional<Account> account_;
};

}  // namespace baton::local_server
