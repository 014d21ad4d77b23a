#pragma once
// Running the real `baton` program, and the folders and servers that its tests need.

#include <filesystem>
#include <string>
#include <vector>

#include "base/process.hpp"

namespace baton::test {

// A folder below the temporary directory that every account may enter; deleted at the end.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

struct Ran {
    int exit_code;
    std::string output;  // stdout
    std::string errors;  // stderr
    std::string last_line() const;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// The program that was built.
std::filesystem::path program_file();
// Run it to its end, without BATON_DB in its environment unless given.
Ran run_baton(const std::vector<std::string>& words, const Environment& environment = {},
              const std::optional<Account>& account = {},
              const std::filesystem::path& program = program_file());
// The same for any command line.
Ran run_separately(Command command);

// Start it; its stdout and stderr are appended to the two files.
Process start_baton(const std::vector<std::string>& words, const std::filesystem::path& output,
                    const std::filesystem::path& errors);

}  // namespace baton::test
