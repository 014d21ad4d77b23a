#include "support/picture.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/file.hpp"
#include "base/process.hpp"
#include "baton/error.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

constexpr int line_height = 20, letter_width = 9, margin = 18;  // pixels

// What escape sequences have switched on.
struct Looks {
    bool bold = false, faint = false, reverse = false;
    int colour = 0;  // 30 to 37; 0: the usual one

    void take(int code) {
        if (code == 0) *this = {};
        if (code == 1) bold = true;
        if (code == 2) faint = true;
        if (code == 7) reverse = true;
        if (code == 22) bold = faint = false;
        if (code == 27) reverse = false;
        if (code == 39) colour = 0;
        if (code >= 30 && code <= 37) colour = code;
    }
    std::string classes() const {
        std::string all;
        if (bold) all += "b ";
        if (faint) all += "f ";
        if (reverse) all += "r ";
        if (colour != 0) all += "c" + std::to_string(colour);
        return all;
    }
};

std::string without_blank_end(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

}  // namespace

std::string page_of_terminal(const std::string& coloured) {
    std::string html =
        "<!doctype html><meta charset=utf-8><style>body{margin:0;background:#16181d;color:#d6dae3}"
        "pre{margin:" +
        std::to_string(margin) + "px;font:15px/" + std::to_string(line_height) +
        "px 'DejaVu Sans Mono',monospace}.b{font-weight:bold;color:#fff}.f{color:#8d95a5}"
        ".r{background:#d6dae3;color:#16181d}.c31{color:#ff6b6b}.c32{color:#5fd38d}.c33{color:#f2c14e}.c36{"
        "color:#62c6e8}</style><pre>";
    const std::string text = without_blank_end(coloured);
    Looks looks;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '\033') {
            const auto end = std::min(text.find('m', at), text.size() - 1);
            std::istringstream codes(text.substr(at + 2, end - at - 2));
            for (std::string code; std::getline(codes, code, ';');) looks.take(std::atoi(code.c_str()));
            if (end == at + 2) looks.take(0);
            at = end;
            continue;
        }
        const auto end = std::min(text.find('\033', at), text.size());
        html += "<span class=\"" + looks.classes() + "\">";
        for (; at < end; ++at)
            html += text[at] == '<' ? "&lt;" : text[at] == '&' ? "&amp;" : std::string(1, text[at]);
        html += "</span>";
        --at;
    }
    return html + "</pre>\n";
}

void take_picture(const std::string& coloured, int columns, const fs::path& file) {
    const TemporaryFolder folder;
    write_text(folder / "page.html", page_of_terminal(coloured));
    fs::create_directories(file.parent_path());
    const std::string text = without_blank_end(coloured);
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    const char* chromium = std::getenv("BATON_CHROMIUM");
    const auto outcome =
        run({.argv = {chromium != nullptr ? chromium : "/usr/bin/chromium", "--headless", "--no-sandbox",
                      "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                      "--disable-background-networking", "--user-data-dir=" + (folder / "profile").string(),
                      "--screenshot=" + file.string(),
                      "--window-size=" + std::to_string(columns * letter_width + 2 * margin) + "," +
                          std::to_string(static_cast<int>(lines) * line_height + 2 * margin),
                      "file://" + (folder / "page.html").string()}});
    if (outcome.exit_code != 0 || !fs::exists(file)) throw Error("no picture was taken: " + outcome.output);
}

}  // namespace baton::test
