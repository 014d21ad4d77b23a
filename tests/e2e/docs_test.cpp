// The SQL blocks of README.md and of every page in docs/ are run as they stand, page by page, on both install
// forms. What any page names is there.

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "base/file.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

const fs::path source_folder = BATON_SOURCE;

std::vector<fs::path> pages() {
    std::vector<fs::path> found{source_folder / "README.md"};
    for (const auto& entry : fs::recursive_directory_iterator(source_folder / "docs"))
        if (entry.path().extension() == ".md") found.push_back(entry.path());
    return found;
}

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

// What a pattern's first group finds in a text.
std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
    std::set<std::string> found;
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
        found.insert((*match)[1].str());
    return found;
}

// The blocks marked as sql, one after the other.
std::string sql_of(const fs::path& page) {
    std::istringstream lines(read_text(page));
    std::string sql;
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```"))
            inside = line == "```sql";
        else if (inside)
            sql += line + "\n";
    }
    return sql;
}

// Run statements with psql, as a reader would.
Ran run_psql(const std::string& url, const std::string& sql) {
    const TemporaryFolder folder;
    write_text(folder / "page.sql", sql);
    return run_separately(
        {.argv = {"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", (folder / "page.sql").string(), url}});
}

class Docs : public testing::TestWithParam<Form> {};

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Docs, testing::Values(Form::extension, Form::plain),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(Docs, every_sql_block_runs) {
    for (const auto& page : pages()) {
        const std::string sql = sql_of(page);
        if (sql.empty()) continue;
        const auto ran = run_psql(shared_cluster(GetParam()).fresh_database(), sql);
        EXPECT_EQ(ran.exit_code, 0) << page << "\n" << ran.errors;
    }
}

TEST_P(Docs, the_example_on_the_first_page_delivers_its_event) {
    const auto url = shared_cluster(GetParam()).fresh_database();
    const auto ran = run_psql(url, sql_of(source_folder / "README.md"));
    ASSERT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_NE(ran.output.find(R"( 1 | order.placed | {"order": 7, "total": 42})"), std::string::npos)
        << ran.output;
    EXPECT_EQ(Connection(url).value("select count(*) from baton.poll_outbox('billing', 'worker-2')"), "0");
}

TEST(Pages, every_file_and_folder_that_is_named_is_there) {
    // From the top, from src/, from the page's own folder, or from tests/ as in `unit/config_test`; capitals
    // stand for a name to be chosen.
    const std::regex path(
        "`((?:bench|brokers|chaos|cmake|conformance|dashboard|docs|e2e|examples|extension|include|isolation|"
        "packaging|scripts|sql|src|support|tests|unit)/[a-z0-9_./-]*)`");
    const auto is_there = [](const fs::path& file) {
        return fs::exists(file) || fs::exists(file.string() + ".cpp") || fs::exists(file.string() + ".sql");
    };
    for (const auto& page : all_pages())
        for (const auto& name : matches(read_text(page), path))
            EXPECT_TRUE(is_there(source_folder / name) || is_there(source_folder / "tests" / name) ||
                        is_there(source_folder / "src" / name) || is_there(page.parent_path() / name))
                << page << " names " << name;
}

TEST(Pages, every_error_that_the_sql_raises_is_on_the_page_of_errors) {
    const std::string page = read_text(source_folder / "docs/errors.md");
    const std::regex raised(R"(errcode = ('\w+'|case [^;]*? end))");
    const std::regex name(R"((?:^|then |else )'(\w+)')");
    for (const auto& file : fs::directory_iterator(source_folder / "sql")) {
        if (file.path().extension() != ".sql") continue;
        for (const auto& codes : matches(read_text(file.path()), raised))
            for (const auto& code : matches(codes, name)) {
                if (code == "BT000") continue;  // is caught where it is raised
                EXPECT_TRUE(std::regex_search(page, std::regex("\\b" + code + "\\b")))
                    << file.path() << " raises " << code;
            }
    }
}

TEST(Pages, every_setting_is_read_somewhere_or_says_that_it_has_no_effect) {
    std::string code;
    for (const auto* folder : {"sql", "src", "extension"})
        for (const auto& file : fs::recursive_directory_iterator(source_folder / folder))
            if (const auto kind = file.path().extension();
                (kind == ".sql" || kind == ".cpp") && file.path().filename() != "settings.sql")
                code += read_text(file.path());
    const auto settings = Connection(shared_cluster(Form::plain).fresh_database())
                              .query("select name, description from baton.setting_defaults");
    ASSERT_GT(settings.rows(), 0);
    for (int row = 0; row < settings.rows(); ++row) {
        const std::string name = settings.text(row, 0);
        const bool idle = settings.text(row, 1).starts_with("no effect");
        EXPECT_EQ(code.find(name) != std::string::npos, !idle) << name;
    }
}

TEST(Pages, every_object_that_is_named_is_there) {
    Connection extension(shared_cluster(Form::extension).fresh_database());
    Connection plain(shared_cluster(Form::plain).fresh_database());
    const auto is_there = [](Connection& db, const std::string& name) {
        return db.query(
                     "select to_regclass($1) is not null or to_regtype($1) is not null "
                     "or $1 in ('baton.tenant_id', 'baton.long_transaction_seconds', "
                     "'baton.old_snapshot_transactions') "
                     "or exists (select from pg_proc where pronamespace::regnamespace || '.' || proname = "
                     "$1) "
                     "or exists (select from baton.setting_defaults where 'baton.' || name = $1)",
                     {name})
                   .text(0, 0) == "t";
    };
    const std::regex object(R"re((?:^|[^\w./-])(baton(?:_internal)?\.[a-z_0-9]+)\b)re");
    const std::set<std::string> files{"baton.hpp", "baton.sql",     "baton.so",
                                      "baton.pc",  "baton.control", "baton.creating"};
    for (const auto& page : all_pages()) {
        if (page.filename() == "CHANGELOG.md") continue;  // tells of what was, too
        for (const auto& name : matches(read_text(page), object))
            EXPECT_TRUE(files.contains(name) || is_there(extension, name) || is_there(plain, name))
                << page << " names " << name;
    }
}
