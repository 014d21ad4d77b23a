#include "support/program.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/file.hpp"
#include "baton/error.hpp"
#include "support/cluster.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

Command baton_command(const std::vector<std::string>& words, const fs::path& program) {
    Command command{.argv = {program.string()}};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    return command;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "baton-cli-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
        throw Error("cannot make a folder below the temporary directory");
    path_ = pattern;
    fs::permissions(path_, fs::perms(0755));
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (std::getenv("BATON_KEEP") == nullptr) fs::remove_all(path_, ignored);
}

std::string Ran::last_line() const {
    return last_lines(output, 1);
}

fs::path program_file() {
    return build_folder() / "bin/baton";
}

Ran run_separately(Command command) {
    const TemporaryFolder folder;
    command.errors = folder / "errors";
    const auto outcome = run(command);
    return {outcome.exit_code, outcome.output, read_text(folder / "errors")};
}

Ran run_baton(const std::vector<std::string>& words, const Environment& environment,
              const std::optional<Account>& account, const fs::path& program) {
    Command command = baton_command(words, program);
    command.environment = {{"BATON_DB", ""}};
    command.environment.insert(command.environment.end(), environment.begin(), environment.end());
    command.account = account;
    return run_separately(command);
}

Process start_baton(const std::vector<std::string>& words, const fs::path& output, const fs::path& errors) {
    Command command = baton_command(words, program_file());
    command.environment = {{"BATON_DB", ""}};
    command.output = output;
    command.errors = errors;
    return Process(command);
}

}  // namespace baton::test
