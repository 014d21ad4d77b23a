#include "support/cluster.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "support/other_postgresql.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

const std::vector<std::string> common_settings{"fsync = off", "max_prepared_transactions = 20",
                                               "max_connections = 200", "shared_buffers = '64MB'",
                                               "max_wal_size = '1GB'"};

fs::path make_folder() {
    std::string pattern = (fs::temp_directory_path() / "baton-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
        throw Error("cannot make a folder below the temporary directory");
    return pattern;
}

std::string read_text(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

const char* name_of(Form form) {
    return form == Form::extension ? "extension" : "plain";
}

fs::path build_folder() {
    if (const char* given = std::getenv("BATON_BUILD")) return given;
    return local_server::LocalServer::executable_folder().parent_path().parent_path();
}

Cluster::Cluster(Options options) : options_(std::move(options)) {
    ::setenv("BATON_SHARE", (build_folder() / "share/baton").c_str(), 0);
    ::setenv("BATON_MODULE", (build_folder() / "lib/baton.so").c_str(), 0);
    auto settings = options_.settings;
    settings.insert(settings.begin(), common_settings.begin(), common_settings.end());
    const fs::path folder = make_folder();
    if (!options_.version.empty()) unpack_postgresql(options_.version, programs_of(folder).parent_path());
    server_ = std::make_unique<local_server::LocalServer>(local_server::LocalServer::Options{
        folder, 0, options_.form == Form::extension, options_.preload, settings,
        options_.version.empty() ? fs::path{} : programs_of(folder)});
    server_->create();
    server_->start();
    make_template();
}

fs::path Cluster::programs_of(const fs::path& folder) {
    return folder.string() + "-postgresql/bin";
}

Cluster::Cluster(const fs::path& folder, Form form) : options_{form, true, {}}, owned_(false) {
    const fs::path programs = programs_of(folder);
    server_ = std::make_unique<local_server::LocalServer>(local_server::LocalServer::Options{
        folder, 0, false, false, {}, fs::exists(programs) ? programs : fs::path{}});
}

Cluster::~Cluster() {
    resume();
    if (!owned_ || !server_) return;
    try {
        server_->stop(local_server::LocalServer::Stop::immediate);
        std::error_code ignored;
        if (std::getenv("BATON_KEEP") != nullptr) return;
        fs::remove_all(server_->folder(), ignored);
        fs::remove_all(programs_of(server_->folder()).parent_path(), ignored);
    } catch (const std::exception&) {  // nothing a destructor can mend
    }
}

fs::path Cluster::leave_running() {
    owned_ = false;
    return server_->folder();
}

void Cluster::make_template() {
    Connection admin(server_->url());
    admin.exec("create role installer login createrole createdb");
    admin.exec("create database baton_template owner installer");
    admin.exec("alter database baton_template is_template true");
    Connection in_template(server_->url("baton_template"));
    if (admin.value("select exists (select from pg_available_extensions where name = 'pgtap')") == "t")
        in_template.exec("create extension pgtap; grant create on schema public to installer");
    if (options_.form == Form::extension) {
        in_template.exec("create extension baton");
    } else {
        in_template.exec("set role installer");
        in_template.exec(read_text(local_server::LocalServer::share_folder() / "baton.sql"));
    }
}

std::string Cluster::fresh_database() {
    static std::atomic<int> counter{0};
    const std::string name = "t" + std::to_string(::getpid()) + "_" + std::to_string(++counter);
    Connection admin(server_->url());
    const char* owner = options_.form == Form::plain ? " owner installer" : "";
    for (int attempt = 0;; ++attempt) {
        try {
            admin.exec("create database " + name + " template baton_template" + owner);
            break;
        } catch (const SqlError& error) {  // the template is busy for a moment: a worker looks into it, say
            if (error.sqlstate() != "55006" || attempt > 100) throw;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    }
    std::string url = server_->url(name);
    if (options_.form == Form::plain) url.replace(url.find("user=postgres"), 13, "user=installer");
    return url;
}

std::string Cluster::quiet_database() {
    const auto url = fresh_database();
    Connection(url).exec("update baton.jobs set enabled = false");  // waits for a step that is under way
    return url;
}

std::string Cluster::empty_database() {
    static std::atomic<int> counter{0};
    const std::string name = "e" + std::to_string(::getpid()) + "_" + std::to_string(++counter);
    Connection(server_->url()).exec("create database " + name + " template template0");
    return server_->url(name);
}

std::string Cluster::database_for_restore() {
    std::string url = empty_database();
    if (options_.form == Form::plain) {
        const std::string name = url.substr(url.find("dbname=") + 7);
        Connection(server_->url()).exec("alter database " + name + " owner to installer");
        Connection(url).exec("grant create on schema public to installer");
        url = server_->url(name, "installer");
    } else {
        Connection(url).exec("create extension if not exists pgtap");
    }
    return url;
}

std::string Cluster::tcp_url(const std::string& url, int port) {
    const auto word = [&url](const std::string& name) {
        const auto begin = url.find(name + "=");
        return url.substr(begin, url.find(' ', begin) - begin);
    };
    const std::string user = word("user");
    Connection(server_->url()).exec("alter role " + user.substr(5) + " password 'secret'");
    return "host=127.0.0.1 port=" + std::to_string(port) + " " + user + " " + word("dbname") +
           " password=secret sslmode=disable";
}

void Cluster::pause() {
    paused_ = {server_->pid()};
    ::kill(paused_.front(), SIGSTOP);  // so that it starts no more of them
    const std::string postmaster = std::to_string(paused_.front());
    std::istringstream children(read_text("/proc/" + postmaster + "/task/" + postmaster + "/children"));
    for (pid_t child = 0; children >> child;) paused_.push_back(child);
    for (const pid_t member : paused_) ::kill(member, SIGSTOP);
}

void Cluster::resume() {
    for (const pid_t member : std::exchange(paused_, {})) ::kill(member, SIGCONT);
}

Cluster Cluster::make_sibling() {
    auto settings = options_.settings;
    settings.insert(settings.begin(), common_settings.begin(), common_settings.end());
    auto server = std::make_unique<local_server::LocalServer>(local_server::LocalServer::Options{
        make_folder(), 0, options_.form == Form::extension, options_.preload, settings});
    server->create();
    return Cluster(options_, std::move(server));
}

Cluster Cluster::copy(const std::vector<std::string>& more_arguments) {
    Cluster made = make_sibling();
    const fs::path data = made.server().folder() / "data";
    fs::remove_all(data);
    std::vector<std::string> argv{"pg_basebackup", "-d", server_->url(), "-D", data.string(), "-c", "fast"};
    argv.insert(argv.end(), more_arguments.begin(), more_arguments.end());
    const auto copied =
        run({.argv = argv, .account = ::geteuid() == 0 ? find_account("postgres") : std::nullopt});
    if (copied.exit_code != 0) throw Error("the files could not be copied: " + copied.output);
    std::ofstream(data / "postgresql.conf", std::ios::app)
        << "unix_socket_directories = '" << made.server().folder().string() << "'\n";
    return made;
}

Cluster Cluster::make_standby() {
    Cluster standby = copy({"-R"});
    standby.server().start();
    return standby;
}

Cluster& shared_cluster(Form form) {
    static std::mutex mutex;
    static std::map<Form, std::unique_ptr<Cluster>> clusters;
    const std::lock_guard lock(mutex);
    auto& cluster = clusters[form];
    if (!cluster) cluster = std::make_unique<Cluster>(form);
    return *cluster;
}

void wait_until(const std::string& what, const std::function<bool()>& condition,
                std::chrono::milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) throw Error("waited in vain until " + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

}  // namespace baton::test
