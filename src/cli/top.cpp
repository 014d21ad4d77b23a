// baton top: everything, live. Arrow keys choose a line, Enter shows it with what belongs to it, Esc goes
// back, Tab goes to the next list, q ends.

#include <unistd.h>

#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "baton/error.hpp"
#include "cli/operate.hpp"
#include "cli/question.hpp"
#include "cli/rates_shown.hpp"
#include "cli/stop_signal.hpp"
#include "cli/terminal.hpp"
#include "cli/top_lists.hpp"

namespace baton::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct TopAsked : Asked {
    double seconds = 1;
};

constexpr auto longest_look = std::chrono::seconds(10);
constexpr auto patience = longest_look;
constexpr int most_of_part = 100;

// What somebody looks at: a place in a list, or one item of it.
struct Place {
    std::size_t list = 0;
    std::size_t line = 0;
    Json item;               // its key; null: the list
    std::size_t scroll = 0;  // lines of the item that are above the screen

    const List& at() const { return lists()[list]; }
};

// What was seen at one look.
struct Seen {
    Json overview;
    std::map<std::string, Json> items;  // by the title of their list
    Place place;                        // what was looked at
    Json shown;                         // the item there; null when there is none
    std::vector<Json> parts;            // what belongs to the item; null: it has no such part
};

class Top {
  public:
    explicit Top(const TopAsked& asked)
        : asked_(asked),
          question_(find_server(asked.target), "baton top", longest_look,
                    [this](postgres::Connection& db) { return look(db); }) {}

    void run(const StopSignal& stop) {
        Terminal terminal;
        auto next = Clock::now();
        while (!stop.requested()) {
            if (Clock::now() >= next) {
                see();
                next = Clock::now() + pause();
            }
            draw();
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
            if (!heed(terminal.key(std::max(left, std::chrono::milliseconds(0))))) return;
        }
    }

  private:
    // On the question's thread.
    Seen look(postgres::Connection& db) {
        const auto ask = [&db](const char* operation, const Json& arguments = Json::object()) {
            return Json::parse(operations::run(operations::find(operation), db, arguments, "top"));
        };
        const Place place = [this] {
            const std::lock_guard lock(mutex_);
            return place_;
        }();
        Seen seen{ask("overview"), {}, place, nullptr, {}};
        for (const auto& list : lists()) {
            const Json all = all_items([&](const Json& page) { return ask(list.list, page); });
            Json& sorted = seen.items[list.title] = Json::array();
            for (const bool red : {true, false})
                for (const auto& item : all)
                    if (is_red(item) == red) sorted.push_back(item);
        }
        if (place.item.is_null()) return seen;
        const auto ask_if_there = [&ask](const char* operation, const Json& arguments) {
            try {
                return ask(operation, arguments);
            } catch (const operations::NotFound&) {  // gone since
            } catch (const SqlError&) {              // or it has no such part
            }
            return Json(nullptr);
        };
        seen.shown = ask_if_there(place.at().show, {{place.at().key, place.item}});
        for (const auto& part : place.at().parts)
            seen.parts.push_back(seen.shown.is_null()
                                     ? Json(nullptr)
                                     : ask_if_there(part.operation, arguments_of(part, seen.shown)));
        return seen;
    }

    static Json arguments_of(const PartOfItem& part, const Json& item) {
        Json arguments{{part.argument, item[part.from]}};
        if (operations::find(part.operation).answer == operations::Answer::page)
            arguments["limit"] = most_of_part;
        return arguments;
    }

    std::chrono::milliseconds pause() const {
        return std::chrono::milliseconds(static_cast<long>(asked_.seconds * 1000));
    }

    // Ask anew; what was seen before stays while no answer comes.
    void see() {
        const auto outcome = question_.get(Clock::duration::zero());
        const bool recent = outcome.answer && outcome.age < pause() + patience;
        trouble_ = outcome.failed || !recent ? outcome.error : "";  // a busy server is no trouble yet
        if (!outcome.answer || outcome.answer == seen_) return;
        const Json chosen =
            place_.line < items().size() ? items()[place_.line][place_.at().key] : Json(nullptr);
        seen_ = outcome.answer;
        items_ = seen_->items;
        add_rates(Clock::now() - outcome.age);
        go({place_.list, line_of(chosen), place_.item, place_.scroll});
    }

    // Where this item is now; when it has gone, the line that was chosen.
    std::size_t line_of(const Json& chosen) const {
        for (std::size_t line = 0; line < items().size(); ++line)
            if (items()[line][place_.at().key] == chosen) return line;
        return std::min(place_.line, std::max<std::size_t>(items().size(), 1) - 1);
    }

    void add_rates(Clock::time_point now) {
        std::map<std::string, double> published;
        for (auto& outbox : items_["outboxes"]) {
            const std::string name = outbox["outbox"].get<std::string>();
            published[name] = outbox["published"].is_number() ? outbox["published"].get<double>() : 0;
            add_rate(outbox, "outbox " + name, published[name], now);
        }
        // What a group has settled is what was published and does not wait.
        for (auto& group : items_["groups"]) {
            const std::string outbox = group["outbox"].get<std::string>();
            const double waits = group["lag_events"].is_number() ? group["lag_events"].get<double>() : 0;
            const auto total =
                published.find(outbox.find('.') == std::string::npos ? "public." + outbox : outbox);
            add_rate(group, "group " + group["group"].get<std::string>(),
                     (total == published.end() ? 0 : total->second) - waits, now);
        }
    }

    void add_rate(Json& item, const std::string& name, double total, Clock::time_point now) {
        rates_.note(name, total, now);
        const auto& history = rates_.of(name);
        item["rate"] = history.empty() ? 0 : static_cast<long long>(history.back());
        item["trend"] = sparkline(history);
    }

    void draw() const {
        const auto screen = Screen::of_stdout();
        std::vector<std::string> head{
            title(screen), toned(screen, Tone::faint, "Tab list  ↑↓ line  Enter show  Esc back  q quit")};
        if (!trouble_.empty()) {
            head.push_back(toned(screen, Tone::bad, "the database does not answer: " + harmless(trouble_)));
            if (seen_) head.push_back(toned(screen, Tone::faint, "what follows was seen before"));
        }
        head.emplace_back();
        std::vector<std::string> tail;
        if (seen_ && place_.item.is_null() && !seen_->overview["findings"].empty()) {
            tail = lines_of(
                [&](std::ostream& out) { print_findings(out, screen, seen_->overview["findings"]); });
            tail.resize(std::min(tail.size(), static_cast<std::size_t>(Terminal::height() / 2)));
            tail.insert(tail.begin(), "");
        }
        const int room = Terminal::height() - static_cast<int>(head.size() + tail.size());
        std::vector<std::string> middle;
        if (seen_) middle = place_.item.is_null() ? list_lines(screen, room) : item_lines(screen, room);
        std::ostringstream page;
        for (const auto* part : {&head, &middle, &tail})
            for (const auto& line : *part) page << cut_to_screen(screen, line) << "\n";
        Terminal::show(page.str());
    }

    std::string title(const Screen& screen) const {
        std::string text = toned(screen, Tone::strong, "baton top");
        if (seen_) text += "  " + baton::cli::show(seen_->overview["server"]["database"]);
        for (std::size_t i = 0; i < lists().size(); ++i)
            text += i == place_.list
                        ? "  " + toned(screen, Tone::strong, "[" + std::string(lists()[i].title) + "]")
                        : "  " + std::string(lists()[i].title);
        return text;
    }

    // The list with its titles; where it is longer than the room, that part of it in which the chosen line
    // is.
    std::vector<std::string> list_lines(const Screen& screen, int room) const {
        const auto table = [this](const Screen& shown_on) {
            return lines_of(
                [&](std::ostream& out) { print_table(out, shown_on, items(), place_.at().columns); });
        };
        auto lines = table(screen);
        if (place_.line < items().size()) {
            const std::string chosen = table({false, screen.width})[place_.line + 1];
            lines[place_.line + 1] = screen.colour ? "\033[7m" + chosen + "\033[0m" : "> " + chosen;
        }
        const std::size_t visible = static_cast<std::size_t>(std::max(room - 1, 3));
        if (items().size() <= visible) return lines;
        const std::size_t rows = visible - 1;  // and one that says where we are
        const std::size_t first =
            std::min(place_.line - std::min(place_.line, rows / 2), items().size() - rows);
        std::vector<std::string> part{lines.front()};
        part.insert(part.end(), lines.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                    lines.begin() + static_cast<std::ptrdiff_t>(first + rows) + 1);
        part.push_back(toned(screen, Tone::faint,
                             std::to_string(first + 1) + "-" + std::to_string(first + rows) + " of " +
                                 std::to_string(items().size())));
        return part;
    }

    std::vector<std::string> record_lines(const Screen& screen) const {
        const std::string name = baton::cli::show(place_.item);
        if (seen_->place.list != place_.list || seen_->place.item != place_.item)
            return {toned(screen, Tone::faint, "looking at " + name)};
        if (seen_->shown.is_null()) return {toned(screen, Tone::faint, name + " is not there any more")};
        std::vector<Column> columns;
        for (const auto& field : operations::find(place_.at().show).shape)
            columns.push_back({field.name, field.name,
                               field.name.ends_with("seconds")        ? Form::seconds
                               : field.name == "bytes"                ? Form::bytes
                               : field.kind == operations::Kind::time ? Form::time
                                                                      : Form::count,
                               field.name == "dead_letters"});
        return lines_of([&](std::ostream& out) {
            print_record(out, screen, seen_->shown, columns);
            for (std::size_t i = 0; i < seen_->parts.size(); ++i)
                print_part(out, screen, place_.at().parts[i], seen_->parts[i]);
        });
    }

    static void print_part(std::ostream& out, const Screen& screen, const PartOfItem& part,
                           const Json& answer) {
        if (answer.is_null()) return;
        const Json& items = answer["items"];
        const bool more = answer.contains("next") && !answer["next"].is_null();
        out << "\n"
            << toned(screen, Tone::strong,
                     std::string(part.title) + ": " +
                         (items.empty() ? "none" : (more ? "the first " : "") + std::to_string(items.size())))
            << "\n";
        if (!items.empty()) print_table(out, screen, items, *part.columns);
    }

    // The item from where it was scrolled to.
    std::vector<std::string> item_lines(const Screen& screen, int room) const {
        const auto lines = record_lines(screen);
        const std::size_t visible = static_cast<std::size_t>(std::max(room - 1, 3));
        longest_scroll_ = lines.size() > visible ? lines.size() - visible : 0;
        const std::size_t first = std::min(place_.scroll, longest_scroll_);
        const std::size_t end = std::min(lines.size(), first + visible);
        std::vector<std::string> part(lines.begin() + static_cast<std::ptrdiff_t>(first),
                                      lines.begin() + static_cast<std::ptrdiff_t>(end));
        if (longest_scroll_ > 0)
            part.push_back(toned(screen, Tone::faint,
                                 "lines " + std::to_string(first + 1) + "-" + std::to_string(end) + " of " +
                                     std::to_string(lines.size()) + ", ↑↓ scrolls"));
        return part;
    }

    template <class Print>
    static std::vector<std::string> lines_of(const Print& print) {
        std::stringstream text;
        print(text);
        std::vector<std::string> lines;
        for (std::string line; std::getline(text, line);) lines.push_back(line);
        return lines;
    }

    // Do what a key says; false when it says to end.
    bool heed(Key key) {
        switch (key) {
            case Key::end:
                return false;
            case Key::tab:
            case Key::right:
                go({(place_.list + 1) % lists().size(), 0, nullptr});
                break;
            case Key::left:
                go({(place_.list + lists().size() - 1) % lists().size(), 0, nullptr});
                break;
            case Key::down:
                if (!place_.item.is_null())
                    go({place_.list, place_.line, place_.item, std::min(place_.scroll + 1, longest_scroll_)});
                else if (place_.line + 1 < items().size())
                    go({place_.list, place_.line + 1, nullptr});
                break;
            case Key::up:
                if (!place_.item.is_null())
                    go({place_.list, place_.line, place_.item,
                        place_.scroll - std::min<std::size_t>(place_.scroll, 1)});
                else if (place_.line > 0)
                    go({place_.list, place_.line - 1, nullptr});
                break;
            case Key::enter:
                if (place_.item.is_null() && place_.line < items().size()) {
                    go({place_.list, place_.line, items()[place_.line][place_.at().key]});
                    see();
                }
                break;
            case Key::back:
                go({place_.list, place_.line, nullptr});
                break;
            default:
                break;
        }
        return true;
    }
    void go(Place place) {
        const std::lock_guard lock(mutex_);
        place_ = std::move(place);
    }
    const Json& items() const {
        static const Json none = Json::array();
        const auto found = items_.find(place_.at().title);
        return found == items_.end() ? none : found->second;
    }

    const TopAsked& asked_;
    Rates rates_;
    std::shared_ptr<const Seen> seen_;
    std::map<std::string, Json> items_;  // with their rates
    std::string trouble_;                // why nothing newer is known
    mutable std::size_t longest_scroll_ = 0;
    std::mutex mutex_;  // place_ is read by the question
    Place place_;
    Question<Seen> question_;  // the last: its thread ends before what it looks at
};

int top(const TopAsked& asked) {
    if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0)
        throw UsageError("top needs a terminal", "baton status prints the same once");
    { const Operator there(asked.target); }  // what cannot be shown at all is said here
    const StopSignal stop;
    Top(asked).run(stop);
    return done;
}

}  // namespace

void add_top(Program& program) {
    auto asked = std::make_shared<TopAsked>();
    auto& command = program.add("top", "everything, live", [asked] { return top(*asked); });
    add_target(command, asked->target);
    command.add_option("--every", asked->seconds, "seconds between two looks")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
}

}  // namespace baton::cli
