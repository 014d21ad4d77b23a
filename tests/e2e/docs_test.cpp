// The SQL blocks of README.md and of every page in docs/ are run as they stand, page by page, on both install
// forms.

#include <gtest/gtest.h>

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
