#include "postgres/local_server.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "baton/error.hpp"

namespace fs = std::filesystem;

namespace baton::postgres {

namespace {

const fs::path system_bin = BATON_PG_BINDIR;
const fs::path system_share = BATON_PG_SHAREDIR;
const fs::path system_lib = BATON_PG_PKGLIBDIR;
constexpr std::size_t longest_socket_path = 107;

// The part that all three folders have in common: the server finds the others relative to its own binary.
fs::path common_prefix() {
    fs::path prefix;
    auto bin = system_bin.begin();
    auto share = system_share.begin();
    auto lib = system_lib.begin();
    while (bin != system_bin.end() && share != system_share.end() && lib != system_lib.end() && *bin == *share &&
           *bin == *lib) {
        prefix /= *bin;
        ++bin, ++share, ++lib;
    }
    return prefix;
}

// Fill `to` with links to everything in `from`.
void link_entries(const fs::path& from, const fs::path& to) {
    fs::create_directories(to);
    for (const auto& entry : fs::directory_iterator(from)) {
        const auto link = to / entry.path().filename();
        if (!fs::exists(fs::symlink_status(link))) fs::create_symlink(entry.path(), link);
    }
}

std::string read_file(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::trunc);
    file << text;
    file.close();
    if (!file) throw Error("cannot write " + path.string() + ": is the disk full?");
}

std::string last_lines(const std::string& text, int count) {
    std::istringstream lines(text);
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

std::string random_password() {
    constexpr std::string_view letters = "abcdefghjkmnpqrstuvwxyz23456789";
    std::random_device random;
    std::string password;
    while (password.size() < 24) password += letters[random() % letters.size()];
    return password;
}

}  // namespace

LocalServer::LocalServer(Options options) : options_(std::move(options)) {
    options_.folder = fs::absolute(options_.folder).lexically_normal();
    if (::geteuid() == 0) {
        account_ = find_account("postgres");
        if (!account_) account_ = find_account("nobody");
    }
    if ((options_.folder / ".s.PGSQL.65535").string().size() > longest_socket_path)
        throw UsageError("the folder's path is too long for a socket: " + options_.folder.string(),
                         "choose a data directory with a shorter path");
    port_ = options_.port;
    if (port_ == 0 && exists()) port_ = std::atoi(read_file(options_.folder / "baton.server").c_str());
}

bool LocalServer::exists() const {
    return fs::exists(options_.folder / "baton.server");
}

pid_t LocalServer::pid() const {
    const pid_t pid = std::atoi(read_file(options_.folder / "data/postmaster.pid").c_str());
    return pid > 0 && ::kill(pid, 0) == 0 ? pid : 0;
}

bool LocalServer::running() const {
    return pid() != 0;
}

void LocalServer::own(const fs::path& path) const {
    if (account_ && ::lchown(path.c_str(), account_->uid, account_->gid) != 0)
        throw Error("cannot give " + path.string() + " to the server's account");
}

Outcome LocalServer::run_tool(const std::vector<std::string>& argv) const {
    Command command{.argv = argv, .account = account_, .output = {}, .working_directory = options_.folder, .environment = {}};
    command.argv[0] = (options_.folder / "root" / fs::relative(system_bin, common_prefix()) / argv[0]).string();
    command.environment = {{"LC_ALL", "C.UTF-8"}, {"PGOPTIONS", ""}};
    return run(command);
}

void LocalServer::make_root() const {
    const fs::path root = options_.folder / "root";
    const fs::path bin = root / fs::relative(system_bin, common_prefix());
    const fs::path share = root / fs::relative(system_share, common_prefix());
    const fs::path lib = root / fs::relative(system_lib, common_prefix());
    fs::create_directories(bin);
    for (const char* program : {"postgres", "initdb", "pg_ctl", "pg_basebackup"})  // copies: the server resolves links to itself
        if (fs::exists(system_bin / program))
            fs::copy_file(system_bin / program, bin / program, fs::copy_options::update_existing);
    link_entries(system_share / "extension", share / "extension");
    link_entries(system_share, share);
    link_entries(system_lib, lib);
    if (!options_.with_extension) return;
    for (const auto& file : fs::directory_iterator(share_folder())) {
        const auto name = file.path().filename().string();
        if (!name.starts_with("baton--") && name != "baton.control") continue;
        fs::remove(share / "extension" / name);
        fs::copy_file(file.path(), share / "extension" / name);
    }
    fs::remove(lib / "baton.so");  // a new file, so that a running server keeps the old one
    fs::copy_file(module_file(), lib / "baton.so");
}

void LocalServer::initialize_cluster() const {
    const auto outcome = run_tool({"initdb", "-D", (options_.folder / "data").string(), "-U", "postgres", "-A", "trust",
                                   "-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"});
    if (outcome.exit_code != 0) throw Error("the cluster could not be made:\n" + last_lines(outcome.output, 3));
    write_file(options_.folder / "data/pg_hba.conf",
               "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost all all ::1/128 scram-sha-256\n"
               "local replication all trust\n");
    std::ofstream conf(options_.folder / "data/postgresql.conf", std::ios::app);
    conf << "\n# baton's private server\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '"
         << options_.folder.string() << "'\npassword_encryption = scram-sha-256\n";
    if (options_.with_extension && options_.preload) conf << "shared_preload_libraries = 'baton'\n";
    for (const auto& setting : options_.settings) conf << setting << "\n";
    conf.close();
    if (!conf) throw Error("cannot write the server's configuration: is the disk full?");
    write_file(options_.folder / "password", random_password());
    fs::permissions(options_.folder / "password", fs::perms::owner_read | fs::perms::owner_write);
}

void LocalServer::create() {
    if (exists()) return;
    const bool was_there = fs::exists(options_.folder);
    if (was_there && !fs::is_empty(options_.folder))
        throw UsageError("the folder " + options_.folder.string() + " is not empty and not a baton server's",
                         "choose another data directory");
    try {
        fs::create_directories(options_.folder);
        fs::permissions(options_.folder, fs::perms::owner_all);
        own(options_.folder);
        make_root();
        initialize_cluster();
        write_file(options_.folder / "baton.server", std::to_string(port_) + "\n");
    } catch (const std::exception&) {
        std::error_code ignored;
        if (was_there) {
            for (const auto& entry : fs::directory_iterator(options_.folder)) fs::remove_all(entry.path(), ignored);
        } else {
            fs::remove_all(options_.folder, ignored);
        }
        throw;
    }
}

void LocalServer::start() {
    if (running()) return;
    make_root();
    const bool choose_port = port_ == 0;
    for (int attempt = 0;; ++attempt) {
        if (choose_port) port_ = find_free_port();
        const auto log = options_.folder / "log";
        if (!fs::exists(log)) write_file(log, "");
        own(log);
        const auto outcome = run_tool({"pg_ctl", "-D", (options_.folder / "data").string(), "-l", log.string(), "-w", "-t", "120",
                                       "-o", "-p " + std::to_string(port_), "start"});
        if (outcome.exit_code == 0) break;
        const std::string said = log_tail(4);
        const bool port_taken = said.find("Address already in use") != std::string::npos ||
                                said.find("could not bind") != std::string::npos ||
                                said.find("could not create any TCP/IP sockets") != std::string::npos;
        if (port_taken && !choose_port)
            throw UsageError("port " + std::to_string(port_) + " is taken by another program",
                             "choose another with --port, or leave it out to get a free one");
        if (!port_taken || attempt >= 5) throw Error("the server did not start:\n" + said);
    }
    write_file(options_.folder / "baton.server", std::to_string(port_) + "\n");
}

void LocalServer::stop(Stop mode) {
    if (!running()) return;
    const auto outcome = run_tool({"pg_ctl", "-D", (options_.folder / "data").string(), "-w", "-t", "120", "-m",
                                   mode == Stop::fast ? "fast" : "immediate", "stop"});
    if (outcome.exit_code != 0) throw Error("the server did not stop:\n" + last_lines(outcome.output, 3));
}

void LocalServer::kill_hard() {
    const pid_t postmaster = pid();
    if (postmaster == 0) return;
    std::vector<pid_t> family{postmaster};
    std::istringstream children(
        read_file("/proc/" + std::to_string(postmaster) + "/task/" + std::to_string(postmaster) + "/children"));
    for (pid_t child = 0; children >> child;) family.push_back(child);
    ::kill(postmaster, SIGSTOP);  // so that it starts no more of them
    for (const pid_t member : family) ::kill(member, SIGKILL);
    for (const pid_t member : family)
        while (::kill(member, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

std::string LocalServer::url(const std::string& database) const {
    return "host=" + options_.folder.string() + " port=" + std::to_string(port_) + " user=postgres dbname=" + database;
}

std::string LocalServer::tcp_url(const std::string& database) const {
    return "postgresql://baton:" + read_file(options_.folder / "password") + "@127.0.0.1:" + std::to_string(port_) + "/" +
           database;
}

std::string LocalServer::log_tail(int lines) const {
    return last_lines(read_file(options_.folder / "log"), lines);
}

fs::path LocalServer::executable_folder() {
    return fs::read_symlink("/proc/self/exe").parent_path();
}

fs::path LocalServer::share_folder() {
    if (const char* given = std::getenv("BATON_SHARE")) return given;
    return executable_folder().parent_path() / "share/baton";
}

fs::path LocalServer::module_file() {
    if (const char* given = std::getenv("BATON_MODULE")) return given;
    const fs::path prefix = executable_folder().parent_path();
    for (const auto& candidate : {prefix / "lib/baton.so", prefix / "lib/baton/baton.so",
                                  system_lib / "baton.so"})
        if (fs::exists(candidate)) return candidate;
    throw Error("the extension's module baton.so was not found below " + prefix.string());
}

}  // namespace baton::postgres
