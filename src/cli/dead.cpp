// baton dead: look at dead letters, correct them, send them again or give them up. Those of groups, inboxes
// and adopted outboxes alike.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>

#include "base/file.hpp"
#include "baton/error.hpp"
#include "cli/listings.hpp"
#include "cli/operate.hpp"

namespace baton::cli {

namespace {

namespace fs = std::filesystem;

struct DeadAsked : Asked {
    std::vector<std::string> letters;
    std::string place, kind, type, since, until, error, key, tenant, reason;
    std::string payload, headers;
    PageAsked page{50, {}};
    bool all = false;
    bool yes = false;

    Json filter() const {
        Json chosen = Json::object();
        const auto add = [&](const char* name, const std::string& value) {
            if (!value.empty()) chosen[name] = value;
        };
        add("place", place);
        add("kind", kind);
        add("event_type", type);
        add("since", since);
        add("until", until);
        add("error", error);
        add("key", key);
        add("tenant", tenant);
        return chosen;
    }
};

int list(const DeadAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("list_dead_letters", asked.page.add_to(asked.filter()));
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json page = Json::parse(answer);
    if (page["items"].empty())
        std::cout << "there are no dead letters\n";
    else
        print_page(page, letter_columns);
    return done;
}

// The parts of an answer that are JSON, as the server wrote them: numbers keep their digits.
std::string raw_part(Operator& with, const std::string& answer, const std::string& name) {
    return with.db().value("select coalesce($1::json -> $2, 'null')", {answer, name});
}

int show_letter(const DeadAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("show_dead_letter", {{"letter", asked.letters.at(0)}});
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    print_record(std::cout, Screen::of_stdout(), Json::parse(answer),
                 {{"letter", "letter"},
                  {"place", "of"},
                  {"event_id", "event"},
                  {"event_offset", "offset"},
                  {"event_type", "type"},
                  {"tenant_id", "tenant"},
                  {"aggregate_id", "aggregate"},
                  {"key", "key"},
                  {"attempts", "tried"},
                  {"died_at", "died", Form::time},
                  {"error", "error"}});
    const Json failures = Json::parse(answer)["failures"];
    if (failures.is_array() && !failures.empty()) {
        std::cout << "failed attempts\n";
        print_failures(std::cout, Screen::of_stdout(), failures);
    }
    std::cout << "headers\n"
              << harmless(raw_part(with, answer, "headers")) << "\npayload\n"
              << harmless(raw_part(with, answer, "payload")) << "\n";
    return done;
}

// What a person edits with; null when nothing is said.
const char* editor_of_user() {
    for (const char* name : {"VISUAL", "EDITOR"})
        if (const char* editor = std::getenv(name); editor != nullptr && *editor != '\0') return editor;
    return nullptr;
}

// A text that a person changes in their editor. Its file goes with the object, unless it is kept.
class EditedText {
  public:
    explicit EditedText(const std::string& text);
    ~EditedText() {
        std::error_code ignored;
        if (!kept_) fs::remove(path_, ignored);
    }
    EditedText(const EditedText&) = delete;
    EditedText& operator=(const EditedText&) = delete;

    const std::string& text() const { return text_; }
    // Leave the file there; return its name.
    const std::string& keep() {
        kept_ = true;
        return path_;
    }

  private:
    std::string path_ = (fs::temp_directory_path() / "baton-letter-XXXXXX.json").string();
    std::string text_;
    bool kept_ = false;
};

EditedText::EditedText(const std::string& text) {
    const char* editor = editor_of_user();
    if (editor == nullptr || ::isatty(STDIN_FILENO) == 0)
        throw UsageError("there is nothing to correct",
                         "give --payload or --headers, or set EDITOR and call from a terminal");
    const int file = ::mkstemps(path_.data(), 5);
    if (file < 0) throw Error("cannot make a file in " + fs::temp_directory_path().string());
    ::close(file);
    write_text(path_, text + "\n");
    const int ended = std::system((std::string(editor) + " '" + path_ + "'").c_str());
    text_ = read_text(path_);
    if (ended == 0) return;
    std::error_code ignored;
    fs::remove(path_, ignored);
    throw Error("the editor failed, nothing was changed", "EDITOR is " + std::string(editor));
}

int tell_edited(const DeadAsked& asked, const std::string& answer) {
    std::cout << (asked.json ? answer
                             : "dead letter " + asked.letters.at(0) +
                                   " was corrected; send it with baton dead replay " + asked.letters.at(0))
              << "\n";
    return done;
}

// A text that is refused is not lost: it took somebody work.
int edit_by_hand(const DeadAsked& asked, Operator& with, Json arguments) {
    const std::string letter = with.ask("show_dead_letter", arguments);
    const std::string before =
        with.db().value("select jsonb_pretty($1::jsonb)", {raw_part(with, letter, "payload")});
    EditedText edited(before);
    if (edited.text() == before + "\n") {
        std::cout << (asked.json ? letter : "dead letter " + asked.letters.at(0) + " stays as it is") << "\n";
        return done;
    }
    arguments["payload"] = edited.text();
    try {
        return tell_edited(asked, with.ask("edit_dead_letter", arguments));
    } catch (const Error& error) {
        const std::string file = edited.keep();
        throw Error(error.what(), "your text is in " + file + ": mend it and give --payload @" + file);
    }
}

int edit(const DeadAsked& asked) {
    Operator with(asked.target);
    Json arguments{{"letter", asked.letters.at(0)}};
    if (!asked.payload.empty()) arguments["payload"] = read_given(asked.payload);
    if (!asked.headers.empty()) arguments["headers"] = read_given(asked.headers);
    if (arguments.size() == 1) return edit_by_hand(asked, with, std::move(arguments));
    return tell_edited(asked, with.ask("edit_dead_letter", arguments));
}

// The letters that a command is about: those named, or all that a filter finds.
std::vector<std::string> chosen(Operator& with, const DeadAsked& asked) {
    const bool filtered = asked.all || !asked.filter().empty();
    if (!asked.letters.empty() && filtered)
        throw UsageError("name letters, or choose them with --in, --type and the like or --all; not both");
    if (!asked.letters.empty()) return asked.letters;
    if (!filtered)
        throw UsageError(
            "no letters are named",
            "name them as baton dead list does, or choose with --in, --type and the like or --all");
    std::vector<std::string> found;
    Json arguments = asked.filter();
    arguments["limit"] = 1000;
    while (true) {
        const Json page = with.look("list_dead_letters", arguments);
        for (const auto& item : page["items"]) found.push_back(item["letter"].get<std::string>());
        if (page["next"].is_null()) return found;
        arguments["after"] = page["next"];
    }
}

bool is_of_adopted_table(const std::string& letter) {
    return letter.starts_with("outbox:");
}

// Take those out that only their own application can give up, and return how many these are. Where letters
// are named, nothing is done.
std::size_t leave_adopted(std::vector<std::string>& letters, bool named) {
    const auto adopted = std::find_if(letters.begin(), letters.end(), is_of_adopted_table);
    if (adopted != letters.end() && named)
        throw UsageError(*adopted + " is a dead letter of an adopted table, which cannot be discarded",
                         "settle its row in the table itself, which belongs to its application");
    return std::erase_if(letters, is_of_adopted_table);
}

std::string counted_letters(std::size_t count) {
    return std::to_string(count) + (count == 1 ? " dead letter" : " dead letters");
}

// Do something with many letters, a thousand at a time, and say how far it is.
int change_many(const DeadAsked& asked, const std::string& operation, const std::string& verb,
                const std::string& participle, Json arguments) {
    Operator with(asked.target);
    auto letters = chosen(with, asked);
    const bool bulk = asked.letters.empty();
    const std::size_t left = verb == "discard" ? leave_adopted(letters, !bulk) : 0;
    if (bulk && !letters.empty() && !asked.yes &&
        !confirm(verb + " " + counted_letters(letters.size()) + "?"))
        throw UsageError(
            counted_letters(letters.size()) + " would be " + participle + ", and nobody said yes",
            "add --yes");
    if (bulk) arguments["missing_ok"] = true;  // somebody else may be at work on them too
    long long count = 0;
    const auto began = std::chrono::steady_clock::now();
    constexpr std::size_t at_once = 1000;
    for (std::size_t from = 0; from < letters.size(); from += at_once) {
        const auto end = std::min(letters.size(), from + at_once);
        arguments["letters"] = std::vector<std::string>(letters.begin() + static_cast<long>(from),
                                                        letters.begin() + static_cast<long>(end));
        count += with.look(operation, arguments)[participle].get<long long>();
        if (letters.size() > at_once) {
            const double passed =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
            print_progress(std::to_string(end) + " of " + std::to_string(letters.size()) + ", " +
                           in_words_of_seconds(passed / static_cast<double>(end) *
                                               static_cast<double>(letters.size() - end)) +
                           " to go");
        }
    }
    if (asked.json)
        std::cout << Json{{participle, count}}.dump() << "\n";
    else
        std::cout << count << (count == 1 ? " dead letter was " : " dead letters were ") << participle
                  << "\n";
    const auto gone = static_cast<long long>(letters.size()) - count;
    if (gone > 0)
        std::cerr << counted_letters(static_cast<std::size_t>(gone)) << (gone == 1 ? " was" : " were")
                  << " gone when their turn came\n";
    if (left > 0)
        throw Error(
            counted_letters(left) + " of adopted tables " + (left == 1 ? "was" : "were") + " left out",
            "settle such a row in the table itself, which belongs to its application: baton dead "
            "list --kind outbox");
    return done;
}

void add_choice(CLI::App& command, DeadAsked& asked) {
    command.add_option("--in", asked.place, "only those of this group, inbox or adopted outbox");
    command.add_option("--kind", asked.kind, "only those of groups, inboxes or adopted outboxes")
        ->check(CLI::IsMember({"group", "inbox", "outbox"}));
    command.add_option("--type", asked.type, "only events of this type");
    command.add_option("--since", asked.since, "only those given up from this moment on");
    command.add_option("--until", asked.until, "only those given up before this moment");
    command.add_option("--error", asked.error, "only those with this in their error");
    command.add_option("--key", asked.key, "only this key");
    command.add_option("--tenant", asked.tenant, "only this tenant");
}

}  // namespace

void add_dead(Program& program) {
    auto& dead = program.add_family("dead", "dead letters: list, show, edit, replay, discard");
    const auto add = [&](const char* name, const char* about, int (*action)(const DeadAsked&)) {
        auto asked = std::make_shared<DeadAsked>();
        auto& command = program.add(dead, name, about, [asked, action] { return action(*asked); });
        add_asked(command, *asked);
        return std::pair<CLI::App&, DeadAsked&>(command, *asked);
    };
    {
        auto [command, asked] = add("list", "dead letters, the latest first", list);
        add_choice(command, asked);
        add_page(command, asked.page);
    }
    {
        auto [command, asked] = add("show", "one dead letter with its payload", show_letter);
        command.add_option("LETTER", asked.letters, "its name")->required()->expected(1);
    }
    {
        auto [command, asked] = add("edit", "correct a dead letter, in your editor or with --payload", edit);
        command.add_option("LETTER", asked.letters, "its name")->required()->expected(1);
        command.add_option("--payload", asked.payload, "JSON, @FILE, or - for stdin");
        command.add_option("--headers", asked.headers, "JSON, @FILE, or - for stdin");
    }
    {
        auto [command, asked] =
            add("replay", "send dead letters again, with all their attempts", [](const DeadAsked& given) {
                return change_many(given, "replay_dead_letters", "replay", "replayed", Json::object());
            });
        command.add_option("LETTER", asked.letters, "their names");
        add_choice(command, asked);
        command.add_flag("--all", asked.all, "all there are");
        command.add_flag("--yes", asked.yes, "do not ask");
    }
    {
        auto [command, asked] = add("discard", "give up dead letters for good; the audit trail keeps them",
                                    [](const DeadAsked& given) {
                                        return change_many(given, "discard_dead_letters", "discard",
                                                           "discarded", {{"reason", given.reason}});
                                    });
        command.add_option("LETTER", asked.letters, "their names");
        add_choice(command, asked);
        command.add_flag("--all", asked.all, "all there are");
        command.add_flag("--yes", asked.yes, "do not ask");
        command.add_option("--reason", asked.reason, "why; stands in the audit trail")->required();
    }
}

}  // namespace baton::cli
