#include <memory>

#include "baton/error.hpp"
#include "cli/commands.hpp"
#include "cli/embedded.hpp"

namespace baton::cli {

namespace {

int down(const std::filesystem::path& folder) {
    local_server::LocalServer server({folder, 0, false, false, {}});
    if (!server.exists())
        throw Error("there is no baton server in " + server.folder().string(),
                    "name the folder given to baton up with --data-dir");
    const FolderLock lock = server.lock();
    if (server.running()) {
        server.stop();
        print_progress("the server in " + server.folder().string() + " was stopped");
    } else {
        print_progress("the server in " + server.folder().string() + " is not running");
    }
    return done;
}

}  // namespace

void add_down(Program& program) {
    auto folder = std::make_shared<std::filesystem::path>(default_folder());
    auto& command = program.add("down", "stop the private PostgreSQL cleanly; its data stays",
                                [folder] { return down(*folder); });
    command.add_option("--data-dir", *folder, "the server's folder")->capture_default_str();
}

}  // namespace baton::cli
