#include "cli/program.hpp"

#include <cctype>
#include <iostream>

#include "baton/error.hpp"
#include "baton/version.hpp"

namespace baton::cli {

namespace {

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

// The library's messages begin with a capital and may end with a full stop; ours do not.
std::string in_our_style(std::string message) {
    message = first_line(message);
    while (!message.empty() && (message.back() == '.' || message.back() == ' ')) message.pop_back();
    if (!message.empty())
        message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    return message;
}

}  // namespace

void print_error(const std::string& message, const std::string& hint) {
    std::cerr << "baton: " << message << "\n";
    if (!hint.empty()) std::cerr << "hint: " << hint << "\n";
}

void print_progress(const std::string& message) {
    std::cerr << "baton: " << message << std::endl;
}

Program::Program()
    : app_("baton carries events out of PostgreSQL and into PostgreSQL without dropping one", "baton") {
    app_.require_subcommand(0, 1);
    app_.set_help_flag("-h,--help", "print this and exit");
    app_.set_version_flag("--version", std::string("baton ") + baton::version(),
                          "print the version and exit");
    app_.footer(
        "Commands that talk to a server take --db URL, or BATON_DB from the environment, or else use the\n"
        "embedded server that `baton up` started.\n"
        "Exit codes: 0 done, 1 failed, 2 the command line could not be understood.");
}

CLI::App& Program::add(const std::string& name, const std::string& description, std::function<int()> action) {
    CLI::App* command = app_.add_subcommand(name, description);
    command->callback([this, action = std::move(action)] { chosen_ = action; });
    return *command;
}

int Program::explain(const CLI::ParseError& error) {
    const auto commands = app_.get_subcommands();
    const std::string help =
        commands.empty() ? "baton --help" : "baton " + commands.front()->get_name() + " --help";
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        const auto unknown = app_.remaining(true);
        const std::string word = unknown.empty() ? "" : unknown.front();
        if (word.starts_with("-"))
            print_error("unknown option '" + word + "'", "see " + help);
        else if (commands.empty())
            print_error("unknown command '" + word + "'", "see " + help + " for what there is");
        else
            print_error("unexpected word '" + word + "'", "see " + help);
    } else {
        print_error(in_our_style(error.what()), "see " + help);
    }
    return misused;
}

int Program::parse(int argc, char** argv) {
    try {
        app_.parse(argc, argv);
        if (!chosen_) std::cout << app_.help();
        return done;
    } catch (const CLI::CallForVersion& call) {
        app_.exit(call);
        return done;
    } catch (const CLI::CallForHelp& call) {
        app_.exit(call);
        return done;
    } catch (const CLI::ParseError& error) {
        return explain(error);
    }
}

int Program::run(int argc, char** argv) {
    if (const int code = parse(argc, argv); code != done || !chosen_) return code;
    try {
        return chosen_();
    } catch (const Error& error) {
        print_error(first_line(error.what()), error.hint());
    } catch (const std::exception& error) {
        print_error(first_line(error.what()));
    }
    return failed;
}

}  // namespace baton::cli
