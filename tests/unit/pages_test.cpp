// The pages of the repository as text, without a server: their links, and the names that people look for.

#include <gtest/gtest.h>

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
        EXPECT_TRUE(rows.contains(name)) << "docs/compatibility.md has no row for the " << kind << " " << name;
        if (kind == "function") {
            EXPECT_NE(reference.find("\n### " + name + "\n"), std::string::npos)
                << "docs/sql-reference.md has no function " << name;
        } else if (kind == "setting") {
            EXPECT_NE(reference.find("\n| `" + name + "` |"), std::string::npos)
                << "docs/sql-reference.md has no setting " << name;
        }
    }
}

// What the page calls the same is there: the sources raise each alert, but for the one that is never sent and
// the channel that has no fixed name.
TEST(Pages, every_alert_that_people_look_for_is_raised_and_every_other_one_is_named) {
    std::string sql;
    for (const auto& file : fs::directory_iterator(source_folder / "sql"))
        if (file.path().extension() == ".sql") sql += read_text(file.path());
    const auto found = matches(sql, std::regex(R"(baton_internal\.alert\('(\w+)')"));
    const std::set<std::string> raised(found.begin(), found.end());
    for (const auto& [kind, name] : known_names())
        if (kind == "alert" && name != "outbox_full_refresh" && name != "outbox_new") {
            EXPECT_TRUE(raised.contains(name)) << "nothing raises " << name;
        }
    const std::string page = read_text(source_folder / "docs/compatibility.md");
    for (const auto& name : raised)
        EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << "the page does not name " << name;
}
