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

// The library's messages begin with a capital and may end with a full stop; ours do not. A word in capitals
// is the name of an argument, as the help has it.
std::string in_our_style(std::string message) {
    message = first_line(message);
    while (!message.empty() && (message.back() == '.' || message.back() == ' ')) message.pop_back();
    const bool begins_with_name =
        message.size() > 1 && std::isupper(static_cast<unsigned char>(message[1])) != 0;
    if (!message.empty() && !begins_with_name)
        message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    return message;
}

// All commands on one screen: those that belong together share a line.
class ShortHelp final : public CLI::Formatter {
  public:
    std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
        if (app->get_parent() != nullptr) return CLI::Formatter::make_help(app, name, mode);
        return app->get_description() + R"(

Usage: baton COMMAND [OPTIONS]         baton COMMAND --help says more

begin   demo                 watch baton carry the events of a small shop
        up, down             a private PostgreSQL with baton
        init                 install baton in a database, or upgrade it
        relay                carry events, as a file or the catalog says
        dashboard            everything on a web page, and the HTTP API
look    status, top          everything on one screen, once or live
        doctor               everything that may be wrong, each with its fix
        lag                  how far behind every group is
        outboxes, groups, inboxes, streams, jobs, settings, actions
        event                one event's whole way
        tail                 follow an outbox, a group or an inbox
mend    dead                 dead letters: list, show, edit, replay, discard
        pipelines            list, show, enable, disable, delete, lint, apply, create
        render               what a pipeline would send, sending nothing
        publish, seek, skip, set
prove   audit                write events, break things, see that all arrived
else    completion, man, version

)" + app->get_footer() +
               "\n";
    }
};

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
    app_.formatter(std::make_shared<ShortHelp>());
    app_.require_subcommand(0, 1);
    app_.set_help_flag("-h,--help", "print this and exit");
    app_.set_version_flag("--version", std::string("baton ") + baton::version(),
                          "print the version and exit");
    app_.footer(
        "Commands that talk to a server take --db URL, or BATON_DB from the environment, or else use the\n"
        "embedded server that `baton up` started. Exit codes: 0 done, 1 failed, 2 not understood.");
}

CLI::App& Program::add_family(const std::string& name, const std::string& description) {
    CLI::App* family = app_.add_subcommand(name, description);
    family->require_subcommand(1);
    return *family;
}

CLI::App& Program::add(const std::string& name, const std::string& description, std::function<int()> action) {
    return add(app_, name, description, std::move(action));
}

CLI::App& Program::add(CLI::App& family, const std::string& name, const std::string& description,
                       std::function<int()> action) {
    CLI::App* command = family.add_subcommand(name, description);
    command->callback([this, action = std::move(action)] { chosen_ = action; });
    return *command;
}

int Program::explain(const CLI::ParseError& error) {
    const auto commands = app_.get_subcommands();
    std::string help = "baton";
    for (const CLI::App* at = &app_; !at->get_subcommands().empty(); help += " " + at->get_name())
        at = at->get_subcommands().front();
    help += " --help";
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
