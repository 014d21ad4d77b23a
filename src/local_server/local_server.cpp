#include "local_server/local_server.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "baton/error.hpp"
#include "local_server/server_folder.hpp"

namespace fs = std::filesystem;

namespace baton::local_server {

namespace {

constexpr auto patience = std::chrono::seconds(60);  // for what a crashed server's children still hold

// The line of a server's log that says why it did not start.
std::string reason_in(const std::string& log) {
    std::istringstream lines(log);
    std::string reason;
    for (std::string line; std::getline(lines, line);)
        for (const char* level : {"FATAL:  ", "PANIC:  "})
            if (const auto at = line.find(level); at != std::string::npos) reason = line.substr(at + 8);
    return reason.empty() ? last_lines(log, 1) : reason;
}

bool contains(const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
}

Error port_taken(int port) {
    return Error("port " + std::to_string(port) + " is taken by another program",
                 "choose another with --port, or leave it out to get a free one");
}

// Turn what the server said when it did not start into an error that says what to do.
Error start_failure(const std::string& said, const fs::path& folder, int port) {
    if (contains(said, "could not bind") && contains(said, "Permission denied"))
        return Error("the server may not listen on port " + std::to_string(port),
                     "choose a port above 1023 with --port, or leave it out to get a free one");
    if (contains(said, "database files are incompatible with server"))
        return Error("the data in " + folder.string() + " was made by another version of PostgreSQL",
                     "choose another data directory, or bring the data over with pg_dump of that version");
    return Error("the server did not start: " + reason_in(said),
                 "see the server's log in " + (folder / "log").string());
}

}  // namespace

std::string quote_conninfo(const std::string& value) {
    std::string quoted = "'";
    for (const char c : value) {
        if (c == '\'' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + "'";
}

LocalServer::LocalServer(Options options) : options_(std::move(options)) {
    options_.folder = fs::absolute(options_.folder).lexically_normal();
    if (options_.folder.filename().empty()) options_.folder = options_.folder.parent_path();
    check_folder_path(options_.folder);
    if (::geteuid() == 0) {
        account_ = find_account("postgres");
        if (!account_) account_ = find_account("nobody");
    }
    find_port();
}

void LocalServer::find_port() {
    port_ = options_.port;
    if (running()) {
        std::istringstream lines(read_text(data() / "postmaster.pid"));
        std::string line;
        for (int number = 0; number < 4; ++number) std::getline(lines, line);  // the fourth line is the port
        port_ = std::atoi(line.c_str());
    } else if (port_ == 0) {
        port_ = std::atoi(read_text(options_.folder / "baton.server").c_str());
    }
}

bool LocalServer::exists() const {
    return fs::exists(options_.folder / "baton.server");
}

std::string LocalServer::account() const {
    return account_name(account_ ? account_->uid : ::geteuid());
}

pid_t LocalServer::pid() const {
    const pid_t pid = std::atoi(read_text(data() / "postmaster.pid").c_str());
    if (!process_alive(pid)) return 0;
    // After a crash and a reboot the number may belong to anybody: ours was started with our data directory.
    const auto words = command_line_of(pid);
    const bool ours = words.empty() || std::find(words.begin(), words.end(), data().string()) != words.end();
    return ours ? pid : 0;
}

bool LocalServer::running() const {
    return pid() != 0;
}

bool LocalServer::crashed() const {
    return !running() && fs::exists(data() / "postmaster.pid");
}

void LocalServer::refresh_root() const {
    if (options_.programs.empty()) root().refresh();
}

fs::path LocalServer::program(const std::string& name) const {
    return options_.programs.empty() ? root().program(name) : options_.programs / name;
}

Outcome LocalServer::run_tool(const std::vector<std::string>& argv) const {
    Command command{.argv = argv, .account = account_, .working_directory = options_.folder};
    command.argv[0] = program(argv[0]).string();
    command.environment = {{"LC_ALL", "C.UTF-8"}, {"PGOPTIONS", ""}};
    command.dies_with_us = argv[0] == "initdb";  // or it would write into a folder that is being made anew
    return run(command);
}

FolderLock LocalServer::lock() {
    for (;;) {
        make_folder();
        try {
            FolderLock lock(options_.folder);
            if (!lock.holds(options_.folder)) continue;
            find_port();  // whoever held the lock may have started it
            return lock;
        } catch (const Error&) {
            if (fs::exists(options_.folder)) throw;
        }
    }
}

void LocalServer::make_folder() {
    std::vector<fs::path> missing;
    for (auto path = options_.folder; !fs::exists(path); path = path.parent_path()) missing.push_back(path);
    std::reverse(missing.begin(), missing.end());
    for (const auto& path : missing) {
        std::error_code error;
        if (fs::create_directory(path, error)) made_.push_back(path);
        if (error == std::errc::no_space_on_device) throw_disk_full(path.parent_path());
        if (error)
            throw Error("cannot make the folder " + path.string() + ": " + error.message(),
                        "choose a data directory below a folder that you may write");
    }
}

void LocalServer::take_folder() {
    check_folder();
    if (account_ && ::lchown(options_.folder.c_str(), account_->uid, account_->gid) != 0)
        throw Error("cannot give " + options_.folder.string() + " to account " + account());
    fs::permissions(options_.folder, fs::perms::owner_all);
    const ActingAs acting(account_);
    if (::eaccess(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0)
        throw Error("account " + account() + ", under which the server runs, cannot enter " +
                        options_.folder.string(),
                    "choose a data directory below a folder that it may enter, such as /var/lib");
}

void LocalServer::check_folder() const {
    check_folder_is_ours(options_.folder, account_ ? account_->uid : ::geteuid());
}

void LocalServer::initialize_cluster() const {
    const auto outcome = run_tool({"initdb", "-D", data().string(), "-U", "postgres", "-A", "trust", "-E",
                                   "UTF8", "--locale=C.UTF-8", "--no-instructions"});
    if (outcome.exit_code == 0) return;
    if (says_disk_full(outcome.output)) throw_disk_full(options_.folder);
    throw Error("the cluster could not be made: " + last_lines(outcome.output, 1));
}

void LocalServer::write_settings() const {
    std::string conf = read_text(data() / "postgresql.conf");
    conf += "\n# baton's private server\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '\"" +
            options_.folder.string() + "\"'\npassword_encryption = scram-sha-256\n";
    if (options_.with_extension && options_.preload) conf += "shared_preload_libraries = 'baton'\n";
    for (const auto& setting : options_.settings) conf += setting + "\n";
    const ActingAs acting(account_);
    write_text(data() / "postgresql.conf", conf);
    write_text(
        data() / "pg_hba.conf",
        "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost all all ::1/128 scram-sha-256\n"
        "local replication all trust\n");
    write_text(options_.folder / "password", random_password());
    fs::permissions(options_.folder / "password", fs::perms::owner_read | fs::perms::owner_write);
}

void LocalServer::remember_port() const {
    const ActingAs acting(account_);
    write_text(options_.folder / "baton.server", std::to_string(port_) + "\n");
}

bool LocalServer::create() {
    if (exists()) return false;
    make_folder();
    const FolderState before(options_.folder);
    try {
        take_folder();
        clear_folder(options_.folder);  // what a creation left that was killed
        {
            const ActingAs acting(account_);
            write_text(options_.folder / "baton.creating", "");
        }
        refresh_root();
        initialize_cluster();
        write_settings();
        remember_port();
        fs::remove(options_.folder / "baton.creating");
        return true;
    } catch (const std::exception& error) {
        // A folder that is not ours has been refused: it holds no trace of us, and is left alone.
        if (fs::exists(options_.folder / "baton.creating")) clear_folder(options_.folder);
        before.restore();
        remove_empty(made_);
        if (const auto* problem = dynamic_cast<const fs::filesystem_error*>(&error)) throw_as_error(*problem);
        throw;
    }
}

void LocalServer::forget_dead_postmaster() const {
    const ActingAs acting(account_);
    if (const std::string text = read_text(data() / "postmaster.pid"); !text.empty()) {
        // The number may belong to another program by now, or to a child that nobody reaps. Put one there
        // that cannot exist, and keep the rest: with it the server finds out whether children of the old one
        // still use its memory.
        write_text(data() / "postmaster.pid",
                   "4194305" + text.substr(std::min(text.find('\n'), text.size())));
    }
    for (const auto& entry : fs::directory_iterator(options_.folder))
        if (entry.path().filename().string().starts_with(".s.PGSQL.")) fs::remove(entry.path());
}

std::optional<std::string> LocalServer::try_start() const {
    const auto log = options_.folder / "log";
    const auto said_before = fs::exists(log) ? fs::file_size(log) : 0;
    const auto outcome = run_tool({"pg_ctl", "-D", data().string(), "-l", log.string(), "-w", "-t", "600",
                                   "-o", "-p " + std::to_string(port_), "start"});
    if (outcome.exit_code == 0) return std::nullopt;
    const std::string said = read_text(log);
    return said.size() > said_before ? said.substr(said_before) : outcome.output;
}

void LocalServer::start() {
    if (running()) return;
    check_folder();
    bool choose_port = port_ == 0;
    if (!choose_port && !port_is_free(port_)) {
        if (options_.port != 0) throw port_taken(port_);
        choose_port = true;  // the one used before is taken, and none was asked for
    }
    try {
        forget_dead_postmaster();
        refresh_root();
        if (options_.with_extension) root().add_extension(share_folder(), module_file());
    } catch (const fs::filesystem_error& error) {
        throw_as_error(error);
    }
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        if (choose_port) port_ = find_free_port();
        const auto said = try_start();
        if (!said) break;
        const bool taken = contains(*said, "Address already in use");
        if (taken && !choose_port) throw port_taken(port_);
        if (says_disk_full(*said)) throw_disk_full(options_.folder);
        const bool passes = taken || contains(*said, "pre-existing shared memory block");
        if (!passes || std::chrono::steady_clock::now() > deadline)
            throw start_failure(*said, options_.folder, port_);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    remember_port();
}

void LocalServer::stop(Stop mode) {
    if (!running()) return;
    const auto outcome = run_tool({"pg_ctl", "-D", data().string(), "-w", "-t", "600", "-m",
                                   mode == Stop::fast ? "fast" : "immediate", "stop"});
    if (outcome.exit_code != 0 && running())
        throw Error("the server did not stop: " + last_lines(outcome.output, 1),
                    "see the server's log in " + (options_.folder / "log").string());
}

void LocalServer::remove() {
    stop(Stop::immediate);
    clear_folder(options_.folder);
    remove_empty(made_);
}

void LocalServer::kill_hard() {
    const pid_t postmaster = pid();
    if (postmaster == 0) return;
    std::vector<pid_t> family{postmaster};
    std::istringstream children(read_text("/proc/" + std::to_string(postmaster) + "/task/" +
                                          std::to_string(postmaster) + "/children"));
    for (pid_t child = 0; children >> child;) family.push_back(child);
    ::kill(postmaster, SIGSTOP);  // so that it starts no more of them
    for (const pid_t member : family) ::kill(member, SIGKILL);
    for (const pid_t member : family)
        while (process_alive(member)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

std::string LocalServer::url(const std::string& database, const std::string& role) const {
    return "host=" + quote_conninfo(options_.folder.string()) + " port=" + std::to_string(port_) +
           " user=" + role + " dbname=" + database;
}

std::string LocalServer::password() const {
    return read_text(options_.folder / "password");
}

std::string LocalServer::tcp_url(const std::string& database, const std::string& role) const {
    return "postgresql://" + role + ":" + password() + "@127.0.0.1:" + std::to_string(port_) + "/" + database;
}

std::string LocalServer::log_tail(int lines) const {
    return last_lines(read_text(options_.folder / "log"), lines);
}

fs::path LocalServer::executable_folder() {
    return fs::read_symlink("/proc/self/exe").parent_path();
}

fs::path LocalServer::share_folder() {
    if (const char* given = std::getenv("BATON_SHARE")) return given;
    return executable_folder().parent_path() / "share/baton";
}

std::optional<fs::path> LocalServer::find_module() {
    if (const char* given = std::getenv("BATON_MODULE")) return given;
    const fs::path prefix = executable_folder().parent_path();
    for (const auto& candidate :
         {prefix / "lib/baton.so", prefix / "lib/baton/baton.so", ServerRoot::system_modules() / "baton.so"})
        if (fs::exists(candidate)) return candidate;
    return std::nullopt;
}

fs::path LocalServer::module_file() {
    if (const auto found = find_module()) return *found;
    throw Error(
        "the extension's module baton.so was not found below " + executable_folder().parent_path().string(),
        "install baton with its extension, or use --mode sql");
}

}  // namespace baton::local_server
