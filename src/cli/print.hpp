#pragma once
// How answers look in a terminal: tables for people, JSON for programs. Colour only where somebody sees it.
// What comes from a database is text: nothing in it can control the terminal.

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace baton::cli {

using Json = nlohmann::ordered_json;

enum class Form { plain, count, bytes, seconds, time, yes_no };
enum class Tone { plain, faint, strong, good, bad, warning, command };

struct Column {
    std::string key;  // of the JSON object
    std::string title;
    Form form = Form::plain;
    bool red_if_any = false;  // a number above 0 needs somebody
};

// What a stream can show.
struct Screen {
    bool colour = false;
    int width = 0;  // 0: no limit

    // NO_COLOR and TERM=dumb switch colours off.
    static Screen of_stdout();
};

// One line for a program.
void print_json(std::ostream& out, const Json& value);

std::string toned(const Screen& screen, Tone tone, const std::string& text);
// A value for people; what could control a terminal is escaped.
std::string show(const Json& value, Form form = Form::plain);
// A line that fits the screen; what colours it stays.
std::string cut_to_screen(const Screen& screen, const std::string& line);
std::string in_words_of_seconds(double seconds);
std::string harmless(const std::string& text);

void print_table(std::ostream& out, const Screen& screen, const Json& items,
                 const std::vector<Column>& columns);
// Words with a mark before each, beside each other where the screen has room.
void print_in_columns(std::ostream& out, const Screen& screen, Tone tone, const std::string& mark,
                      const std::vector<std::string>& words);
// One object, a line per column.
void print_record(std::ostream& out, const Screen& screen, const Json& item,
                  const std::vector<Column>& columns);
// The failed attempts of a dead letter or an event, the latest last.
void print_failures(std::ostream& out, const Screen& screen, const Json& failures);
// Findings of `status` and `doctor`: what is wrong, the command that mends it, what else is to be known.
void print_findings(std::ostream& out, const Screen& screen, const Json& findings);

}  // namespace baton::cli
