#pragma once
// The queries of a benchmark as stream tables: tables, rows and queries stand in a folder beside the tests.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/cluster.hpp"

namespace baton::test {

class StreamQueries : public testing::Test {
  protected:
    explicit StreamQueries(std::string folder) : folder_(std::move(folder)) {}

    void SetUp() override {
        db_.exec(read("schema.sql"));
        db_.exec(read("rows.sql"));
        queries_ = statements(read("queries.sql"));
        ASSERT_EQ(queries_.size(), 22U);
    }

    void create_all(const std::string& mode) {
        for (std::size_t i = 0; i < queries_.size(); ++i)
            db_.query("select baton.create_stream_table($1, $2, null, $3)", {name(i), queries_[i], mode});
    }

    void refresh_and_compare(const std::string& expected_mode) {
        for (std::size_t i = 0; i < queries_.size(); ++i)
            EXPECT_EQ(db_.value("select mode from baton.refresh_stream_table($1)", {name(i)}), expected_mode)
                << queries_[i];
        compare();
    }

    void compare() {
        for (std::size_t i = 0; i < queries_.size(); ++i)
            EXPECT_EQ(db_.value("select format('%s missing, %s surplus', missing, surplus) from "
                                "baton.verify_stream_table($1)",
                                {name(i)}),
                      "0 missing, 0 surplus")
                << queries_[i];
    }

    static std::string name(std::size_t i) { return "q" + std::to_string(i + 1); }

    Connection db_{shared_cluster(Form::extension).quiet_database()};

  private:
    std::string read(const std::string& file_name) const {
        std::ifstream file(std::string(BATON_SOURCE) + "/tests/isolation/" + folder_ + "/" + file_name);
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
    }

    // The statements of a file, without its comments.
    static std::vector<std::string> statements(const std::string& text) {
        std::vector<std::string> found(1);
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("--")) continue;
            const auto end = line.find(';');
            found.back() += line.substr(0, end) + "\n";
            if (end != std::string::npos) found.emplace_back();
        }
        found.pop_back();
        return found;
    }

    std::string folder_;
    std::vector<std::string> queries_;
};

}  // namespace baton::test
