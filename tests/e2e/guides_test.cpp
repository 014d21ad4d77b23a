// The guides do what they say: the quick start runs as it stands, and the code on the pages of languages is
// that of the examples, which languages_test and examples_test run.

#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <sstream>

#include "base/file.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

const fs::path docs = fs::path(BATON_SOURCE) / "docs";

struct Block {
    std::string language;
    std::string text;
};

std::vector<Block> blocks_of(const fs::path& page) {
    std::vector<Block> blocks;
    std::istringstream lines(read_text(page));
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            inside = !inside;
            if (inside) blocks.push_back({line.substr(3), ""});
        } else if (inside) {
            blocks.back().text += line + "\n";
        }
    }
    return blocks;
}

// A line of expected output, in which "..." stands for anything.
std::regex pattern_of(const std::string& line) {
    std::string pattern;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line.compare(i, 3, "...") == 0) {
            pattern += ".*";
            i += 2;
        } else {
            if (std::string_view("^$\\.*+?()[]{}|").find(line[i]) != std::string_view::npos) pattern += '\\';
            pattern += line[i];
        }
    }
    return std::regex(pattern);
}

// The same text without the indentation of its lines, for code that a page shows out of its place.
std::string without_indentation(const std::string& text) {
    return std::regex_replace(text, std::regex("(^|\n)[ \t]+"), "$1");
}

// The files of examples/ that a page links to.
std::string examples_named_by(const fs::path& page) {
    const std::string text = read_text(page);
    const std::regex link(R"(\]\((\.\./\.\./examples/[^)#]+)\))");
    std::string found;
    for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match)
        found += read_text(page.parent_path() / (*match)[1].str());
    return found;
}

// Stops the server of the quick start when the script did not.
struct StopAtEnd {
    fs::path folder;
    ~StopAtEnd() { run_baton({"down", "--data-dir", folder.string()}); }
};

}  // namespace

TEST(QuickStart, runs_as_it_stands) {
    const TemporaryFolder folder;
    const StopAtEnd stop{folder / "server"};
    // kill %1 needs job control, and nobody waits for ever for what does not come.
    std::string script = "set -em\nexport PATH=" + program_file().parent_path().string() + ":$PATH\n";
    std::vector<std::string> expected;
    for (const auto& block : blocks_of(docs / "quick-start.md")) {
        if (block.language == "sh") {
            script += block.text;
            continue;
        }
        ASSERT_EQ(block.language, "text");
        std::istringstream lines(block.text);
        for (std::string line; std::getline(lines, line);) expected.push_back(line);
    }
    ASSERT_GT(expected.size(), 5U);
    write_text(folder / "quick-start.sh", script);
    const auto ran =
        run_separately({.argv = {"timeout", "--kill-after=10", "300", "bash", folder / "quick-start.sh"},
                        .working_directory = folder.path()});
    EXPECT_EQ(ran.exit_code, 0) << ran.output << ran.errors;
    std::istringstream lines(ran.output);
    std::string line;
    for (const auto& wanted : expected) {
        const std::regex pattern = pattern_of(wanted);
        bool found = false;
        while (!found && std::getline(lines, line)) found = std::regex_search(line, pattern);
        ASSERT_TRUE(found) << wanted << "\n\nis not in, or not in its place:\n\n" << ran.output << ran.errors;
    }
}

TEST(LanguagePages, show_the_code_of_the_examples) {
    int compared = 0;
    for (const auto& page : fs::directory_iterator(docs / "languages")) {
        const std::string code = without_indentation(examples_named_by(page.path()));
        for (const auto& block : blocks_of(page.path())) {
            if (block.language == "sql") continue;  // docs_test runs them
            ++compared;
            EXPECT_NE(code.find(without_indentation(block.text)), std::string::npos)
                << page.path() << " shows what is not in the file that it names:\n"
                << block.text;
        }
    }
    EXPECT_GE(compared, 10);
}
