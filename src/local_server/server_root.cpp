#include "local_server/server_root.hpp"

#include "base/file.hpp"
#include "baton/error.hpp"

namespace fs = std::filesystem;

namespace baton::local_server {

namespace {

const fs::path system_bin = BATON_PG_BINDIR;
const fs::path system_share_folder = BATON_PG_SHAREDIR;
const fs::path system_lib = BATON_PG_PKGLIBDIR;

// The part that all three folders have in common: the server finds the others relative to its own binary.
fs::path common_prefix() {
    fs::path prefix;
    auto bin = system_bin.begin();
    auto share = system_share_folder.begin();
    auto lib = system_lib.begin();
    while (bin != system_bin.end() && share != system_share_folder.end() && lib != system_lib.end() &&
           *bin == *share && *bin == *lib) {
        prefix /= *bin;
        ++bin, ++share, ++lib;
    }
    return prefix;
}

fs::path below(const fs::path& root, const fs::path& system_folder) {
    return root / fs::relative(system_folder, common_prefix());
}

// Fill `to` with links to everything in `from`, and drop links whose target is gone.
void link_entries(const fs::path& from, const fs::path& to) {
    fs::create_directories(to);
    for (const auto& entry : fs::directory_iterator(to))
        if (entry.is_symlink() && !fs::exists(entry.path())) fs::remove(entry.path());
    for (const auto& entry : fs::directory_iterator(from)) {
        const auto link = to / entry.path().filename();
        if (!fs::exists(fs::symlink_status(link))) fs::create_symlink(entry.path(), link);
    }
}

}  // namespace

ServerRoot::ServerRoot(fs::path root, std::optional<Account> account)
    : root_(std::move(root)), account_(account) {}

void ServerRoot::copy_programs() const {
    const fs::path bin = below(root_, system_bin);
    fs::create_directories(bin);
    for (const char* program :
         {"postgres", "initdb", "pg_ctl", "pg_basebackup"}) {  // a link would be resolved
        const auto from = system_bin / program;
        const auto to = bin / program;
        if (!fs::exists(from)) continue;
        if (fs::exists(to) && fs::file_size(to) == fs::file_size(from) &&
            fs::last_write_time(to) == fs::last_write_time(from))
            continue;
        fs::remove(to);
        write_text(to, read_text(from));  // unlike fs::copy_file, this says when the disk is full
        fs::permissions(to, fs::perms(0755));
        fs::last_write_time(to, fs::last_write_time(from));
    }
}

void ServerRoot::refresh() const {
    if (!fs::exists(system_bin / "postgres"))
        throw Error("no PostgreSQL server is installed in " + system_bin.string(),
                    "install the package postgresql, or give a server with --db");
    const ActingAs account(account_);
    copy_programs();
    link_entries(system_share_folder / "extension", below(root_, system_share_folder) / "extension");
    link_entries(system_share_folder, below(root_, system_share_folder));
    link_entries(system_lib, below(root_, system_lib));
}

void ServerRoot::add_extension(const fs::path& share, const fs::path& module) const {
    const auto replace = [this](const fs::path& from, const fs::path& to) {
        const std::string content =
            read_text(from);  // with our own rights: the account may not reach the build
        const ActingAs account(account_);
        fs::remove(to);  // a new file, so that a running server keeps the old one
        write_text(to, content);
    };
    for (const auto& file : fs::directory_iterator(share)) {
        const auto name = file.path().filename().string();
        if (name.starts_with("baton--") || name == "baton.control")
            replace(file.path(), below(root_, system_share_folder) / "extension" / name);
    }
    replace(module, below(root_, system_lib) / "baton.so");
}

fs::path ServerRoot::program(const std::string& name) const {
    return below(root_, system_bin) / name;
}

fs::path ServerRoot::system_modules() {
    return system_lib;
}

fs::path ServerRoot::system_programs() {
    return system_bin;
}

fs::path ServerRoot::system_share() {
    return system_share_folder;
}

}  // namespace baton::local_server
