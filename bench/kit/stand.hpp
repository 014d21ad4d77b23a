#pragma once
// A server with one build's baton in it, and the processor's time that a session of it takes.

#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "local_server/local_server.hpp"
#include "postgres/connection.hpp"

namespace baton::bench {

namespace fs = std::filesystem;
using local_server::LocalServer;
using postgres::Connection;

enum class Form { extension, plain };

// A server with one build's baton in it.
class Stand {
  public:
    Stand(const fs::path& share, const fs::path& module, Form form) : form_(form) {
        ::setenv("BATON_SHARE", share.c_str(), 1);
        ::setenv("BATON_MODULE", module.c_str(), 1);
        std::string folder = (fs::temp_directory_path() / "baton-bench-XXXXXX").string();
        if (::mkdtemp(folder.data()) == nullptr) throw Error("cannot make a folder for a server");
        server_ = std::make_unique<LocalServer>(LocalServer::Options{
            folder,
            0,
            form == Form::extension,
            form == Form::extension,
            {"shared_buffers = '512MB'", "max_wal_size = '8GB'", "checkpoint_timeout = '30min'",
             "autovacuum = off", "max_locks_per_transaction = 1000"}});
        server_->create();
        server_->start();
        std::ostringstream script;
        script << std::ifstream(share / "baton.sql").rdbuf();
        install_ = form == Form::extension ? "create extension baton" : script.str();
    }
    Stand(const Stand&) = delete;
    Stand& operator=(const Stand&) = delete;
    ~Stand() {
        try {
            server_->remove();
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}\n", error.what());
        }
    }

    // A connection to a new database in which nothing runs by itself.
    Connection fresh() {
        const std::string name = "b" + std::to_string(++databases_);
        Connection(server_->url()).exec("create database " + name);
        Connection db(server_->url(name));
        db.exec(install_);
        db.exec("update baton.jobs set enabled = false");
        return db;
    }

    // How to reach the database of a connection from fresh().
    std::string url_of(Connection& db) const { return server_->url(db.value("select current_database()")); }

    const char* form() const { return form_ == Form::extension ? "extension" : "plain"; }

  private:
    Form form_;
    std::unique_ptr<LocalServer> server_;
    std::string install_;
    int databases_ = 0;
};

// The processor's time that a session has taken, in microseconds.
inline double processor_time(pid_t backend) {
    double nanoseconds = 0;
    std::ifstream("/proc/" + std::to_string(backend) + "/schedstat") >> nanoseconds;
    return nanoseconds / 1000;
}

}  // namespace baton::bench
