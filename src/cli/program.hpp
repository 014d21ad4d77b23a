#pragma once
// The command line. Commands register themselves, and the program runs one of them. Every failure becomes one
// sentence and an exit code.
//
// Exit codes: 0 done, 1 failed, 2 the command line could not be understood.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace baton::cli {

constexpr int done = 0;
constexpr int failed = 1;
constexpr int misused = 2;

class Program {
  public:
    Program();

    // Add a command. Its action runs when the command line names the command, and returns the exit code.
    CLI::App& add(const std::string& name, const std::string& description, std::function<int()> action);
    // Add a command that has commands below it, and a command below it.
    CLI::App& add_family(const std::string& name, const std::string& description);
    CLI::App& add(CLI::App& family, const std::string& name, const std::string& description,
                  std::function<int()> action);

    const CLI::App& app() const { return app_; }

    // Parse the command line, run the command, print what went wrong. Returns the exit code.
    int run(int argc, char** argv);

  private:
    int parse(int argc, char** argv);
    int explain(const CLI::ParseError& error);

    CLI::App app_;
    std::function<int()> chosen_;
};

// Say on stderr what went wrong and what to do next.
void print_error(const std::string& message, const std::string& hint = {});
// Say on stderr what is being done.
void print_progress(const std::string& message);

}  // namespace baton::cli
