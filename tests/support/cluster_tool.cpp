// Commands for the SQL suite:
//   test_cluster start LINK extension|plain [VERSION]  starts a server, of another version of PostgreSQL than
//                                                      the system's; LINK will point to its folder
//   test_cluster run LINK extension|plain FILE         runs a pgTAP file in a fresh database
//   test_cluster stop LINK

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/process.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"

namespace fs = std::filesystem;
using namespace baton;

namespace {

void stop(const fs::path& link) {
    if (!fs::is_symlink(link)) return;
    test::Cluster(fs::read_symlink(link), test::Form::plain).take_over();
    fs::remove(link);
}

int start(const fs::path& link, test::Form form, const std::string& version) {
    stop(link);
    test::Cluster cluster(test::Cluster::Options{form, true, {}, version});
    std::cout << "server for the SQL suite at port " << cluster.server().port() << "\n";
    fs::create_directories(link.parent_path());
    fs::create_symlink(cluster.leave_running(), link);
    return 0;
}

// The connection string as libpq's environment variables, for programs that take no string.
std::vector<std::pair<std::string, std::string>> environment_of(const std::string& conninfo) {
    std::vector<std::pair<std::string, std::string>> environment{
        {"PGOPTIONS", "-c client_min_messages=warning"}};
    PQconninfoOption* options = PQconninfoParse(conninfo.c_str(), nullptr);
    for (const PQconninfoOption* option = options; option != nullptr && option->keyword != nullptr; ++option)
        if (option->val != nullptr && option->envvar != nullptr)
            environment.emplace_back(option->envvar, option->val);
    PQconninfoFree(options);
    return environment;
}

int run_file(const fs::path& link, test::Form form, const std::string& file) {
    if (!fs::is_symlink(link)) throw test::Unavailable("its server was not to be had");
    test::Cluster cluster(fs::read_symlink(link), form);
    const auto outcome = run({.argv = {"pg_prove", "--norc", "-v", file},
                              .account = {},
                              .output = {},
                              .working_directory = {},
                              .environment = environment_of(cluster.quiet_database())});
    std::cout << outcome.output;
    return outcome.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    try {
        if (words.size() >= 3 && words[0] == "start")
            return start(words[1], words[2] == "plain" ? test::Form::plain : test::Form::extension,
                         words.size() > 3 ? words[3] : "");
        if (words.size() >= 4 && words[0] == "run")
            return run_file(words[1], words[2] == "plain" ? test::Form::plain : test::Form::extension,
                            words[3]);
        if (words.size() >= 2 && words[0] == "stop") {
            stop(words[1]);
            return 0;
        }
    } catch (const test::Unavailable& error) {
        std::cout << "SUITE SKIPPED: " << error.what() << "\n";
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "test_cluster: " << error.what() << "\n";
        return 1;
    }
    std::cerr << "usage: test_cluster start|run|stop LINK [FORM [VERSION | FILE]]\n";
    return 2;
}
