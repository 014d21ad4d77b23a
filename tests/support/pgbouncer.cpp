#include "support/pgbouncer.hpp"

#include <unistd.h>

#include <fstream>

namespace baton::test {

namespace fs = std::filesystem;

PgBouncer::PgBouncer(const local_server::LocalServer& server)
    : Broker("pgbouncer"), server_folder_(server.folder()), server_port_(server.port()) {
    fs::permissions(folder(), fs::perms(0755));
}

std::string PgBouncer::url(const std::string& direct) const {
    const auto word = [&direct](const std::string& name) {
        const auto begin = direct.find(name + "=");
        return direct.substr(begin, direct.find(' ', begin) - begin);
    };
    return "host=127.0.0.1 port=" + std::to_string(port()) + " " + word("user") + " " + word("dbname");
}

void PgBouncer::prepare() {
    std::ofstream(folder() / "users") << "\"postgres\" \"\"\n\"installer\" \"\"\n";
    std::ofstream(folder() / "pgbouncer.ini")
        << "[databases]\n* = host=" << server_folder_.string() << " port=" << server_port_
        << "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " << port()
        << "\nunix_socket_dir =\nauth_type = trust\nauth_file = " << (folder() / "users").string()
        << "\npool_mode = transaction\ndefault_pool_size = 2\n"
           "min_pool_size = 2\nmax_client_conn = 200\n"
           "server_round_robin = 1\nserver_reset_query_always = 0\n";
}

Command PgBouncer::command() {
    Command how;
    how.argv = {"pgbouncer", (folder() / "pgbouncer.ini").string()};
    if (::getuid() == 0) how.account = find_account("postgres");
    return how;
}

bool PgBouncer::ready() {
    return accepts_connections(port());
}

}  // namespace baton::test
