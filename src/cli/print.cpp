#include "cli/print.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

namespace baton::cli {

namespace {

constexpr int narrowest = 12;  // of a column that gives way, when a table does not fit
constexpr int long_text = 24;
constexpr std::size_t fewest_columns = 3;

bool is_set(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
}

// Read one character of UTF-8 at `at`, and move on. Bytes that are no UTF-8 count as they are, with the top
// bit in the answer.
char32_t next_character(std::string_view text, std::size_t& at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(at);
    const int length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
    if (length == 0 || at + static_cast<std::size_t>(length) > text.size()) return 0x80000000U | byte(at++);
    char32_t character = length == 1 ? first : first & (0xffU >> (length + 1));
    for (int i = 1; i < length; ++i) {
        if ((byte(at + static_cast<std::size_t>(i)) & 0xc0) != 0x80) return 0x80000000U | byte(at++);
        character = character << 6 | (byte(at + static_cast<std::size_t>(i)) & 0x3f);
    }
    at += static_cast<std::size_t>(length);
    return character;
}

// Characters that move the cursor, turn the direction of writing or are no characters.
bool is_harmful(char32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c >= 0x110000 || c == 0x061c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
           c == 0xfeff || (c >= 0xd800 && c < 0xe000);
}

int width_of(std::string_view text) {
    int width = 0;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = next_character(text, at);
        // East Asian wide characters and pictures take two places.
        const bool wide = (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
                          (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
                          (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
                          (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
        const bool joins = c >= 0x300 && c <= 0x36f;
        width += joins ? 0 : wide ? 2 : 1;
    }
    return width;
}

std::string cut_to(const std::string& text, int width) {
    if (width_of(text) <= width) return text;
    std::string cut;
    int used = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t from = at;
        next_character(text, at);
        const int more = width_of(std::string_view(text).substr(from, at - from));
        if (used + more > width - 1) break;
        cut.append(text, from, at - from);
        used += more;
    }
    return cut + "…";
}

std::string padded(const std::string& text, int width, bool to_the_right) {
    const std::string blanks(static_cast<std::size_t>(std::max(0, width - width_of(text))), ' ');
    return to_the_right ? blanks + text : text + blanks;
}

std::string with_commas(long long number) {
    std::string digits = std::to_string(std::llabs(number));
    for (auto at = static_cast<long>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), ",");
    return number < 0 ? "-" + digits : digits;
}

std::string bytes_in_words(double bytes) {
    const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
    std::size_t unit = 0;
    while (bytes >= 1000 && unit + 1 < std::size(units)) {
        bytes /= 1000;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, units[unit]);
}

bool is_number_form(Form form) {
    return form == Form::count || form == Form::bytes || form == Form::seconds;
}

const Json& value_of(const Json& item, const std::string& key) {
    static const Json none;
    return item.contains(key) ? item[key] : none;
}

Tone tone_of(const Column& column, const Json& value) {
    return column.red_if_any && value.is_number() && value.get<double>() > 0 ? Tone::bad : Tone::plain;
}

}  // namespace

Screen Screen::of_stdout() {
    Screen screen;
    if (::isatty(STDOUT_FILENO) == 0) return screen;
    const char* term = std::getenv("TERM");
    screen.colour = !is_set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
    winsize size{};
    screen.width = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    return screen;
}

std::string toned(const Screen& screen, Tone tone, const std::string& text) {
    if (!screen.colour || tone == Tone::plain || text.empty()) return text;
    const char* code = tone == Tone::faint     ? "2"
                       : tone == Tone::strong  ? "1"
                       : tone == Tone::good    ? "32"
                       : tone == Tone::bad     ? "31"
                       : tone == Tone::command ? "36"
                                               : "33";
    return std::string("\033[") + code + "m" + text + "\033[0m";
}

void print_json(std::ostream& out, const Json& value) {
    out << value.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

std::string cut_to_screen(const Screen& screen, const std::string& line) {
    std::string cut;
    int used = 0;
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t from = at;
        if (line[at] == '\033') {  // a colour: ESC [ ... m
            at = std::min(line.find('m', at), line.size() - 1) + 1;
            cut.append(line, from, at - from);
            continue;
        }
        next_character(line, at);
        used += width_of(std::string_view(line).substr(from, at - from));
        if (screen.width > 0 && used > screen.width) return cut + (screen.colour ? "\033[0m" : "");
        cut.append(line, from, at - from);
    }
    return cut;
}

std::string harmless(const std::string& text) {
    std::string safe;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t from = at;
        const char32_t c = next_character(text, at);
        if (c == '\n')
            safe += "\\n";
        else if (c == '\t')
            safe += "\\t";
        else if (c >= 0x80000000U)
            safe += fmt::format("\\x{:02x}", static_cast<unsigned>(c & 0xff));
        else if (is_harmful(c))
            safe += c < 0x100 ? fmt::format("\\x{:02x}", static_cast<unsigned>(c))
                              : fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            safe.append(text, from, at - from);
    }
    return safe;
}

std::string in_words_of_seconds(double seconds) {
    if (seconds < 0) return "-" + in_words_of_seconds(-seconds);
    if (seconds < 0.001) return "0 s";
    if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
    if (seconds < 10) return fmt::format("{:.1f} s", seconds);
    if (seconds < 120) return fmt::format("{:.0f} s", seconds);
    if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
    if (seconds < 172800) return fmt::format("{:.0f} h", seconds / 3600);
    return fmt::format("{:.0f} days", seconds / 86400);
}

std::string show(const Json& value, Form form) {
    if (value.is_null()) return "";
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_number()) {
        const double number = value.get<double>();
        if (form == Form::bytes) return bytes_in_words(number);
        if (form == Form::seconds) return in_words_of_seconds(number);
        if (form == Form::count && value.is_number_integer()) return with_commas(value.get<long long>());
        return value.dump();
    }
    if (value.is_string()) {
        std::string text = value.get<std::string>();
        // 2026-11-16T19:20:01.123456+00:00: people read it to the second
        if (form == Form::time && text.size() >= 19 && text[10] == 'T')
            return text.substr(0, 10) + " " + text.substr(11, 8);
        return harmless(text);
    }
    if (value.is_array() &&
        std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); })) {
        std::string joined;
        for (const auto& item : value) joined += (joined.empty() ? "" : ", ") + item.get<std::string>();
        return harmless(joined);
    }
    return harmless(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

namespace {

// How wide columns are. Where a table is wider than the screen, long texts give way, then the last column,
// and then the last columns go: a single item shows them all.
std::vector<int> fitting_widths(const Screen& screen, const Json& items, const std::vector<Column>& columns) {
    std::vector<int> widths;
    int over = -2 - screen.width;
    for (const auto& column : columns) {
        int width = width_of(column.title);
        for (const auto& item : items)
            width = std::max(width, width_of(show(value_of(item, column.key), column.form)));
        widths.push_back(width);
        over += width + 2;
    }
    if (screen.width == 0) return widths;
    const auto give_way = [&](std::size_t i, int least) {
        const int less = std::min(over, widths[i] - std::max(least, width_of(columns[i].title)));
        if (columns[i].form != Form::plain || less <= 0) return;
        widths[i] -= less;
        over -= less;
    };
    for (std::size_t i = 0; i + 1 < widths.size() && over > 0; ++i) give_way(i, long_text);
    while (over > 0) {
        give_way(widths.size() - 1, narrowest);
        if (over <= 0 || widths.size() <= fewest_columns) break;
        over -= widths.back() + 2;
        widths.pop_back();
    }
    for (std::size_t i = 0; i < widths.size() && over > 0; ++i) give_way(i, narrowest);
    return widths;
}

}  // namespace

void print_table(std::ostream& out, const Screen& screen, const Json& items,
                 const std::vector<Column>& columns) {
    const auto widths = fitting_widths(screen, items, columns);
    const auto line = [&](const auto& cell) {
        std::string text;
        for (std::size_t i = 0; i < widths.size(); ++i) {
            const bool last = i + 1 == widths.size();
            auto [words, tone] = cell(columns[i]);
            words = cut_to(words, widths[i]);
            const std::string space = padded(words, last && !is_number_form(columns[i].form) ? 0 : widths[i],
                                             is_number_form(columns[i].form));
            text += toned(screen, tone, space) + (last ? "" : "  ");
        }
        while (!text.empty() && text.back() == ' ') text.pop_back();
        out << text << "\n";
    };
    line([](const Column& column) { return std::pair{column.title, Tone::faint}; });
    for (const auto& item : items)
        line([&](const Column& column) {
            const Json& value = value_of(item, column.key);
            return std::pair{show(value, column.form), tone_of(column, value)};
        });
}

void print_failures(std::ostream& out, const Screen& screen, const Json& failures) {
    print_table(out, screen, failures,
                {{"at", "WHEN", Form::time}, {"attempt", "ATTEMPT", Form::count}, {"error", "ERROR"}});
}

void print_in_columns(std::ostream& out, const Screen& screen, Tone tone, const std::string& mark,
                      const std::vector<std::string>& words) {
    int width = 0;
    for (const auto& word : words) width = std::max(width, width_of(mark + word) + 4);
    const std::size_t across = static_cast<std::size_t>(std::max(1, width > 0 ? screen.width / width : 1));
    const std::size_t down = (words.size() + across - 1) / across;
    for (std::size_t row = 0; row < down; ++row) {
        std::string line;
        for (std::size_t i = row; i < words.size(); i += down)
            line +=
                toned(screen, tone, mark) + "  " +
                (i + down < words.size() ? padded(words[i], width - width_of(mark) - 2, false) : words[i]);
        out << line << "\n";
    }
}

void print_record(std::ostream& out, const Screen& screen, const Json& item,
                  const std::vector<Column>& columns) {
    int width = 0;
    for (const auto& column : columns) width = std::max(width, width_of(column.title));
    for (const auto& column : columns) {
        const Json& value = value_of(item, column.key);
        if (value.is_null()) continue;
        out << toned(screen, Tone::faint, padded(column.title, width, false)) << "  "
            << toned(screen, tone_of(column, value), show(value, column.form)) << "\n";
    }
}

namespace {

// Break text at blanks; lines after the first, and the first too, begin with the indent.
void print_wrapped(std::ostream& out, const Screen& screen, const std::string& text,
                   const std::string& indent, Tone tone, int used = 0) {
    const int room =
        screen.width > 0 ? std::max(narrowest, screen.width - static_cast<int>(indent.size())) : 0;
    std::string line;
    bool first = true;
    const auto end_line = [&] {
        out << (first && used > 0 ? "" : indent) << toned(screen, tone, line) << "\n";
        first = false;
        line.clear();
    };
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t blank = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, blank - at);
        const int indented = first && used > 0 ? used - static_cast<int>(indent.size()) : 0;
        if (room > 0 && !line.empty() && indented + width_of(line) + 1 + width_of(word) > room) end_line();
        line += (line.empty() ? "" : " ") + word;
        at = blank + 1;
    }
    end_line();
}

}  // namespace

void print_findings(std::ostream& out, const Screen& screen, const Json& findings) {
    for (const auto& finding : findings) {
        const bool bad = value_of(finding, "severity") == "error";
        const std::string head = bad ? "error" : "warning", object = show(value_of(finding, "object"));
        out << toned(screen, bad ? Tone::bad : Tone::warning, head) << "  "
            << toned(screen, Tone::strong, object) << ": ";
        print_wrapped(out, screen, show(value_of(finding, "what")), "    ", Tone::plain,
                      static_cast<int>(head.size()) + 4 + width_of(object));
        // A command stays in one piece: it is to be copied.
        if (const std::string fix = show(value_of(finding, "fix")); !fix.empty())
            out << "    " << toned(screen, Tone::command, fix) << "\n";
        if (const std::string note = show(value_of(finding, "note")); !note.empty())
            print_wrapped(out, screen, note, "    ", Tone::faint);
    }
}

}  // namespace baton::cli
