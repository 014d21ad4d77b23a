// baton completion: lines for a shell, and baton man: pages for man(1). Both come from the commands
// themselves.

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "baton/error.hpp"
#include "baton/version.hpp"
#include "cli/commands.hpp"

namespace baton::cli {

namespace {

// Every command with its options: "dead list" has --in, --limit and so on.
struct Described {
    std::string words;
    const CLI::App* app;
};

// The commands below a command; some are for shells only.
std::vector<const CLI::App*> commands_below(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

void collect(const CLI::App& app, const std::string& words, std::vector<Described>& all) {
    for (const CLI::App* command : commands_below(app)) {
        const std::string name = words.empty() ? command->get_name() : words + " " + command->get_name();
        all.push_back({name, command});
        collect(*command, name, all);
    }
}

std::string joined(const std::vector<std::string>& words, const char* with = " ") {
    std::string text;
    for (const auto& word : words) text += (text.empty() ? "" : with) + word;
    return text;
}

// The words that an option or an argument can be: CLI11 calls the type TEXT:{one,two}.
std::vector<std::string> choices_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    const auto from = type.find('{'), to = type.find('}');
    if (from == std::string::npos || to == std::string::npos) return {};
    std::vector<std::string> words;
    std::istringstream choices(type.substr(from + 1, to - from - 1));
    for (std::string word; std::getline(choices, word, ',');) words.push_back(word);
    return words;
}

std::vector<std::string> names_of(const CLI::Option& option) {
    std::vector<std::string> names;
    for (const auto& name : option.get_lnames()) names.push_back("--" + name);
    for (const auto& name : option.get_snames()) names.push_back("-" + name);
    return names;
}

// What of the database an option or an argument names, in the words of `baton names`; empty: nothing.
std::string kinds_named_by(const std::string& command, const CLI::Option& option) {
    static const std::map<std::string, std::string> known{{"outboxes NAME", "outbox"},
                                                          {"groups NAME", "group"},
                                                          {"inboxes NAME", "inbox"},
                                                          {"streams NAME", "stream"},
                                                          {"event --outbox", "outbox"},
                                                          {"tail NAME", "group inbox outbox"},
                                                          {"publish OUTBOX", "outbox"},
                                                          {"seek GROUP", "group"},
                                                          {"skip INBOX", "inbox"},
                                                          {"set SETTING", "setting"},
                                                          {"render PIPELINE", "pipeline"},
                                                          {"pipelines show NAME", "pipeline"},
                                                          {"pipelines enable NAME", "pipeline"},
                                                          {"pipelines disable NAME", "pipeline"},
                                                          {"pipelines delete NAME", "pipeline"},
                                                          {"pipelines create --outbox", "outbox"},
                                                          {"dead list --in", "group inbox outbox"},
                                                          {"dead replay --in", "group inbox outbox"},
                                                          {"dead discard --in", "group inbox outbox"}};
    const auto found = known.find(command + " " + option.get_name());
    return found == known.end() ? "" : found->second;
}

// ... and what the arguments of a command name.
std::string kinds_of_arguments(const Described& described) {
    for (const CLI::Option* option : described.app->get_options())
        if (option->get_positional())
            if (std::string kinds = kinds_named_by(described.words, *option); !kinds.empty()) return kinds;
    return {};
}

bool takes_value(const CLI::Option& option) {
    return !option.get_positional() && option.get_items_expected_max() > 0;
}

// Where an argument is a file's name.
bool is_file(const CLI::Option& option) {
    return option.get_positional() && option.get_name().find("FILE") != std::string::npos;
}

// What may follow a command: the words below it, its options, and what its arguments can be.
std::vector<std::string> words_below(const CLI::App& app) {
    std::vector<std::string> words;
    for (const CLI::App* command : commands_below(app)) words.push_back(command->get_name());
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_positional())
            for (const auto& choice : choices_of(*option)) words.push_back(choice);
        for (const auto& name : option->get_lnames()) words.push_back("--" + name);
    }
    return words;
}

bool takes_file(const CLI::App& app) {
    const auto options = app.get_options();
    return std::any_of(options.begin(), options.end(),
                       [](const CLI::Option* option) { return is_file(*option); });
}

// What bash and zsh do alike. `before` is the command that the words name so far, `last` an option whose
// value is at hand; other words are arguments. Leaves the words that may follow in `offered`, whether a file
// may in `file`, and of what kinds names may in `names`.
std::string choosing(const CLI::App& app) {
    std::vector<Described> all;
    collect(app, "", all);
    std::set<std::string> valued;
    std::vector<std::string> commands;
    std::string below = "    '') offered='" + joined(words_below(app)) + "' ;;\n", values;
    for (const auto& [words, command] : all) {
        commands.push_back("'" + words + "'");
        const std::string kinds = kinds_of_arguments({words, command});
        below += "    '" + words + "') offered='" + joined(words_below(*command)) + "'" +
                 (takes_file(*command) ? " file=1" : "") + (kinds.empty() ? "" : " names='" + kinds + "'") +
                 " ;;\n";
        for (const CLI::Option* option : command->get_options()) {
            if (!takes_value(*option)) continue;
            for (const auto& name : names_of(*option)) {
                valued.insert(name);
                if (const auto choices = choices_of(*option); !choices.empty())
                    values +=
                        "    '" + words + " " + name + "') offered='" + joined(choices) + "' file='' ;;\n";
                if (const auto of_value = kinds_named_by(words, *option); !of_value.empty())
                    values += "    '" + words + " " + name + "') names='" + of_value + "' file='' ;;\n";
            }
        }
    }
    return "        if [[ $last == --db ]]; then db=$word; fi\n"
           "        if [[ -n $last ]]; then last=''; continue; fi\n"
           "        case $word in\n"
           "        " +
           joined({valued.begin(), valued.end()}, "|") +
           ") last=$word ;;\n"
           "        -*) ;;\n"
           "        *) case ${before:+$before }$word in " +
           joined(commands, "|") +
           ") before=${before:+$before }$word ;; esac ;;\n"
           "        esac\n"
           "    done\n"
           "    case $before in\n" +
           below +
           "    esac\n"
           "    if [[ -n $last ]]; then offered='' names='' file=1; fi\n"
           "    case \"$before $last\" in\n" +
           values + "    esac\n";
}

std::string bash(const CLI::App& app) {
    return "_baton() {\n"
           "    local word before='' last='' offered='' file='' names='' db=''\n"
           "    COMPREPLY=()\n"
           "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n" +
           choosing(app) +
           "    local at=\"${COMP_WORDS[COMP_CWORD]}\"\n"
           "    if [[ -n $names && $at != -* ]]; then\n"
           "        offered+=\" $(command baton names ${db:+--db=\"$db\"} $names 2>/dev/null)\"\n"
           "    fi\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$at\"; [[ -z $file ]] || compgen -f -- "
           "\"$at\")\n"
           "}\n"
           "complete -o filenames -F _baton baton\n";
}

std::string zsh(const CLI::App& app) {
    return "#compdef baton\n"
           "_baton() {\n"
           "    local word before='' last='' offered='' file='' names='' db=''\n"
           "    for word in \"${(@)words[2,CURRENT-1]}\"; do\n" +
           choosing(app) +
           "    if [[ -n $names && ${words[CURRENT]} != -* ]]; then\n"
           "        offered+=\" $(command baton names ${db:+--db=\"$db\"} ${=names} 2>/dev/null)\"\n"
           "    fi\n"
           "    [[ -z $offered ]] || compadd -- ${=offered}\n"
           "    [[ -z $file ]] || _files\n"
           "}\n"
           "if [ \"$funcstack[1]\" = _baton ]; then _baton \"$@\"; else compdef _baton baton; fi\n";
}

std::string quoted(std::string text) {
    for (std::size_t at = 0; (at = text.find_first_of("\\'", at)) != std::string::npos; at += 2)
        text.insert(at, "\\");
    return "'" + text + "'";
}

// What makes fish ask for names.
std::string asked_names(const std::string& kinds) {
    return quoted("(command baton names " + kinds + " 2>/dev/null)");
}

std::string fish(const CLI::App& app) {
    std::vector<Described> all;
    collect(app, "", all);
    std::set<std::string> valued;
    std::vector<std::string> commands;
    std::string text;
    for (const auto& [words, command] : all) {
        commands.push_back("'" + words + "'");
        const auto blank = words.rfind(' ');
        const std::string above = blank == std::string::npos ? "" : words.substr(0, blank);
        const auto at = [](const std::string& where) {
            return "complete -c baton -n " + quoted("__baton_at '" + where + "'");
        };
        text += at(above) + " -a " + command->get_name() + " -d " + quoted(command->get_description()) + "\n";
        if (takes_file(*command)) text += at(words) + " -F\n";
        if (const auto kinds = kinds_of_arguments({words, command}); !kinds.empty())
            text += at(words) + " -a " + asked_names(kinds) + "\n";
        for (const CLI::Option* option : command->get_options()) {
            const std::string choices = joined(choices_of(*option)), kinds = kinds_named_by(words, *option);
            if (option->get_positional() && !choices.empty())
                text += at(words) + " -a " + quoted(choices) + "\n";
            if (takes_value(*option))
                for (const auto& name : names_of(*option)) valued.insert(name);
            for (const auto& name : option->get_lnames())
                text += at(words) + " -l " + name + " -d " + quoted(option->get_description()) +
                        (!takes_value(*option) ? ""
                         : !kinds.empty()      ? " -x -a " + asked_names(kinds)
                         : choices.empty()     ? " -r -F"
                                               : " -x -a " + quoted(choices)) +
                        "\n";
        }
    }
    return "function __baton_at\n"
           "    set -l before ''\n"
           "    set -l last ''\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        if test -n \"$last\"\n"
           "            set last ''\n"
           "        else if contains -- $word " +
           joined({valued.begin(), valued.end()}) +
           "\n"
           "            set last $word\n"
           "        else if contains -- (string trim -- \"$before $word\") " +
           joined(commands) +
           "\n"
           "            set before (string trim -- \"$before $word\")\n"
           "        end\n"
           "    end\n"
           "    test \"$before\" = \"$argv[1]\"\n"
           "end\n"
           "complete -c baton -f\n" +
           text;
}

std::string roff(const std::string& text) {
    std::string escaped = text.starts_with(".") || text.starts_with("'") ? "\\&" : "";
    for (const char c : text) escaped += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
    return escaped;
}

std::string man_page(const CLI::App& app) {
    std::vector<Described> all;
    collect(app, "", all);
    std::string text = ".TH BATON 1 \"\" \"baton " + std::string(version()) + "\"\n.SH NAME\nbaton \\- " +
                       roff(app.get_description()) +
                       "\n.SH SYNOPSIS\n.B baton\n.I COMMAND\n.RI [ OPTIONS ]\n.SH COMMANDS\n";
    for (const auto& [words, command] : all) {
        if (!commands_below(*command).empty()) continue;
        text += ".SS \"baton " + words;
        for (const CLI::Option* option : command->get_options())
            if (option->get_positional())
                text += option->get_required() ? " " + option->get_name() : " [" + option->get_name() + "]";
        text += "\"\n" + roff(command->get_description()) + "\n";
        for (const CLI::Option* option : command->get_options())
            text += ".TP\n.B " +
                    roff(option->get_positional() ? option->get_name() : option->get_name(false, true)) +
                    "\n" + roff(option->get_description()) + "\n";
    }
    return text +
           ".SH ENVIRONMENT\n.TP\n.B BATON_DB\nthe server, where \\-\\-db is not given\n.TP\n.B NO_COLOR\nno "
           "colours, whatever the terminal can show\n"
           ".SH EXIT STATUS\n0 done, 1 failed, 2 the command line could not be understood.\n";
}

}  // namespace

void add_completion(Program& program) {
    auto shell = std::make_shared<std::string>();
    auto& completion =
        program.add("completion", "lines that make a shell complete baton's commands", [shell, &program] {
            std::cout << (*shell == "bash"  ? bash(program.app())
                          : *shell == "zsh" ? zsh(program.app())
                                            : fish(program.app()));
            return done;
        });
    completion.add_option("SHELL", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    program.add("man", "the manual page, for man(1)", [&program] {
        std::cout << man_page(program.app());
        return done;
    });
}

}  // namespace baton::cli
