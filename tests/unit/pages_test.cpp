// The pages of the repository as text, without a server: their links, and the names that people look for.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/file.hpp"

namespace fs = std::filesystem;
using namespace baton;

namespace {

const fs::path source_folder = BATON_SOURCE;

// Every page of the repository, wherever it stands.
std::vector<fs::path> all_pages() {
    std::vector<fs::path> found;
    for (auto entry = fs::recursive_directory_iterator(source_folder);
         entry != fs::recursive_directory_iterator(); ++entry) {
        const std::string name = entry->path().filename().string();
        if (entry->is_directory() &&
            (name.starts_with("build") || name.starts_with(".") || name == "node_modules")) {
            entry.disable_recursion_pending();
        } else if (entry->path().extension() == ".md") {
            found.push_back(entry->path());
        }
    }
    return found;
}

// The lines of a page outside of its blocks of code.
std::vector<std::string> prose_of(const fs::path& page) {
    std::istringstream text(read_text(page));
    std::vector<std::string> lines;
    bool inside = false;
    for (std::string line; std::getline(text, line);) {
        if (line.starts_with("```"))
            inside = !inside;
        else if (!inside)
            lines.push_back(line);
    }
    return lines;
}

// What a pattern's first group finds in a text.
std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
        found.push_back((*match)[1].str());
    return found;
}

// A heading's anchor, as GitHub makes it: small letters, hyphens for spaces, no other signs.
std::string anchor_of(const std::string& heading) {
    std::string anchor;
    for (const char c : heading) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if (c == ' ' || c == '-')
            anchor += '-';
        else if (c == '_')
            anchor += c;
    }
    return anchor;
}

std::set<std::string> anchors_of(const fs::path& page) {
    std::set<std::string> anchors;
    for (const auto& line : prose_of(page))
        if (const auto level = line.find_first_not_of('#'); level > 0 && level < 7 && line[level] == ' ')
            anchors.insert(anchor_of(line.substr(level + 1)));
    return anchors;
}

struct Link {
    std::string file;
    std::string anchor;
};

// The links of a page that stay in the repository.
std::vector<Link> links_of(const fs::path& page) {
    const std::regex link(R"(\[[^\]]+\]\(([^)\s]+)\))");
    std::vector<Link> links;
    for (const auto& line : prose_of(page))
        for (const auto& target : matches(line, link)) {
            if (target.find("://") != std::string::npos) continue;
            const auto hash = target.find('#');
            links.push_back(
                {target.substr(0, hash), hash == std::string::npos ? "" : target.substr(hash + 1)});
        }
    return links;
}

// The names in the first column of a page's tables.
std::set<std::string> rows_of(const fs::path& page) {
    std::set<std::string> names;
    for (const auto& line : prose_of(page))
        if (line.starts_with("| "))
            for (const auto& name : matches(line.substr(0, line.find('|', 1)), std::regex("`([^`]+)`")))
                names.insert(name);
    return names;
}

// The cells of a line of a table.
std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream text(line.substr(1));
    for (std::string cell; std::getline(text, cell, '|');) cells.push_back(cell);
    return cells;
}

// The numbers in a text, without the commas of thousands.
std::set<std::string> numbers_of(const std::string& text) {
    std::set<std::string> numbers;
    for (auto number : matches(text, std::regex(R"((?:^|[^\w.,-])(\d[\d,]*(?:\.\d+)?)(?!\w|\.\d))"))) {
        std::erase(number, ',');
        numbers.insert(number);
    }
    return numbers;
}

// A file that a page names as in `unit/pages_test`.
fs::path test_file(const std::string& name) {
    for (const auto* folder : {"tests", "src"})
        for (const auto* ending : {".cpp", ".hpp", ".sql"})
            if (const auto file = source_folder / folder / (name + ending); fs::exists(file)) return file;
    return {};
}

// The names that people look for, by kind.
std::multimap<std::string, std::string> known_names() {
    std::multimap<std::string, std::string> names;
    std::istringstream lines(read_text(source_folder / "tests/unit/known_names.txt"));
    for (std::string line; std::getline(lines, line);)
        if (!line.starts_with("#"))
            names.emplace(line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1));
    return names;
}

}  // namespace

TEST(Pages, every_link_leads_somewhere) {
    for (const auto& page : all_pages())
        for (const auto& link : links_of(page)) {
            const auto target = link.file.empty() ? page : page.parent_path() / link.file;
            EXPECT_TRUE(fs::exists(target)) << page << " links to " << link.file;
            if (!link.anchor.empty()) {
                EXPECT_TRUE(anchors_of(target).contains(link.anchor))
                    << page << " links to " << link.file << ", which has no heading #" << link.anchor;
            }
        }
}

TEST(Pages, every_page_of_the_docs_is_in_their_index) {
    const auto docs = source_folder / "docs";
    std::set<fs::path> named;
    for (const auto& link : links_of(docs / "README.md")) named.insert((docs / link.file).lexically_normal());
    for (const auto& page : all_pages()) {
        const auto place = page.lexically_relative(docs).string();
        if (place.starts_with("..") || place.starts_with("adr/") || place == "README.md") continue;
        EXPECT_TRUE(named.contains(page)) << "docs/README.md does not name " << place;
    }
}

TEST(Pages, every_name_that_people_look_for_has_its_row) {
    const auto rows = rows_of(source_folder / "docs/compatibility.md");
    const std::string reference = read_text(source_folder / "docs/sql-reference.md");
    const auto names = known_names();
    EXPECT_GT(names.size(), 100U);
    for (const auto& [kind, name] : names) {
        EXPECT_TRUE(rows.contains(name))
            << "docs/compatibility.md has no row for the " << kind << " " << name;
        if (kind == "function") {
            EXPECT_NE(reference.find("\n### " + name + "\n"), std::string::npos)
                << "docs/sql-reference.md has no function " << name;
        } else if (kind == "setting") {
            EXPECT_NE(reference.find("\n| `" + name + "` |"), std::string::npos)
                << "docs/sql-reference.md has no setting " << name;
        }
    }
}

// What the page calls the same is there: the sources raise each alert, but for the channel that has no fixed
// name.
TEST(Pages, every_alert_that_people_look_for_is_raised_and_every_other_one_is_named) {
    std::string sql;
    for (const auto& file : fs::directory_iterator(source_folder / "sql"))
        if (file.path().extension() == ".sql") sql += read_text(file.path());
    const auto found = matches(sql, std::regex(R"(baton_internal\.alert\('(\w+)')"));
    const std::set<std::string> raised(found.begin(), found.end());
    for (const auto& [kind, name] : known_names())
        if (kind == "alert" && name != "outbox_new") {
            EXPECT_TRUE(raised.contains(name)) << "nothing raises " << name;
        }
    const std::string page = read_text(source_folder / "docs/compatibility.md");
    for (const auto& name : raised)
        EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << "the page does not name " << name;
}

// As in `unit/pages_test`: `a_test_that_a_page_names_is_there`; of SQL the name of an assertion.
TEST(Pages, every_test_that_is_named_by_its_sentence_is_there) {
    const std::regex named(R"(`([a-z0-9_]+(?:/[a-z0-9_]+)+)`: `([^`]+)`)");
    int found = 0;
    for (const auto& page : all_pages()) {
        const std::string text = read_text(page);
        for (std::sregex_iterator match(text.begin(), text.end(), named), end; match != end; ++match) {
            const std::string name = (*match)[1].str();
            const std::string sentence = (*match)[2].str();
            // A suite of conformance has its sentences in the header, and its tests in the .cpp beside it.
            const auto file = test_file(name);
            ASSERT_FALSE(file.empty()) << page << " names " << name;
            std::string source = read_text(file);
            if (fs::exists(fs::path(file).replace_extension(".hpp")))
                source += read_text(fs::path(file).replace_extension(".hpp"));
            const std::string form = file.extension() == ".sql"
                                         ? "'" + sentence + "'"
                                         : "(?:TEST\\w*\\(\\s*\\w+,\\s*|CONFORMANCE\\()" + sentence + "\\)";
            EXPECT_TRUE(std::regex_search(source, std::regex(form)))
                << page << " names " << sentence << ", which is not in " << file;
            ++found;
        }
    }
    EXPECT_GT(found, 20);
}

TEST(Pages, every_row_of_what_dies_names_its_test_and_alerts_that_there_are) {
    const auto prose = prose_of(source_folder / "docs/operations.md");
    const std::string rules = read_text(source_folder / "monitoring/prometheus/baton.rules.yml");
    const auto begin = std::find(prose.begin(), prose.end(), "## When something dies");
    int rows = 0;
    for (auto line = begin; line != prose.end(); ++line) {
        if (!line->starts_with("| ") || line->starts_with("| what dies")) continue;
        const auto cells = cells_of(*line);
        ASSERT_EQ(cells.size(), 6U) << *line;
        EXPECT_TRUE(std::regex_search(cells[5], std::regex("`[a-z0-9_/]+`: `"))) << *line;
        for (const auto& alert : matches(cells[3], std::regex(R"(\*\*(\w+)\*\*)"))) {
            EXPECT_NE(rules.find("alert: " + alert + "\n"), std::string::npos)
                << "there is no alert " << alert;
        }
        ++rows;
    }
    EXPECT_GT(rows, 20);
}

// A row with a link to a page of bench/results says nothing that is not on that page.
TEST(Pages, every_number_of_a_measurement_is_on_the_page_that_its_row_links_to) {
    int compared = 0;
    for (const auto& page : all_pages())
        for (const auto& line : prose_of(page)) {
            const auto results = matches(line, std::regex(R"(\((?:\.\./)*bench/results/(\w+\.md))"));
            if (!line.starts_with("| ") || results.empty()) continue;
            std::set<std::string> measured;
            for (const auto& result : results)
                measured.merge(numbers_of(read_text(source_folder / "bench/results" / result)));
            for (const auto& number : numbers_of(line)) {
                EXPECT_TRUE(measured.contains(number)) << page << ": " << number << " in\n" << line;
                ++compared;
            }
        }
    EXPECT_GT(compared, 10);
}
