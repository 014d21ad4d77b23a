// The 22 queries of TPC-H as stream tables: after rows came, changed and went, each holds what its query
// gives, and none of them had to be computed in full.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

std::string read(const std::string& name) {
    std::ifstream file(std::string(BATON_SOURCE) + "/tests/isolation/tpch/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The statements of a file, without its comments.
std::vector<std::string> statements(const std::string& text) {
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

class StreamTpch : public testing::Test {
  protected:
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
        for (std::size_t i = 0; i < queries_.size(); ++i) {
            EXPECT_EQ(db_.value("select mode from baton.refresh_stream_table($1)", {name(i)}), expected_mode)
                << queries_[i];
            EXPECT_EQ(db_.value("select format('%s missing, %s surplus', missing, surplus) from "
                                "baton.verify_stream_table($1)",
                                {name(i)}),
                      "0 missing, 0 surplus")
                << queries_[i];
        }
    }

    static std::string name(std::size_t i) { return "q" + std::to_string(i + 1); }

    Connection db_{shared_cluster(Form::extension).quiet_database()};
    std::vector<std::string> queries_;
};

}  // namespace

TEST_F(StreamTpch, every_query_follows_its_tables) {
    create_all("DIFFERENTIAL");
    db_.exec("select new_orders(3000, 3049), new_customers(300, 309)");
    refresh_and_compare("DIFFERENTIAL");
    db_.exec(
        "delete from lineitem where l_orderkey % 97 = 0; delete from orders where o_orderkey % 97 = 0;"
        "update lineitem set l_discount = 0.06, l_quantity = l_quantity + 1 where l_orderkey % 89 = 0;"
        "update supplier set s_comment = 'Customer Complaints', s_acctbal = s_acctbal + 1 where s_suppkey % "
        "10 = 3");
    refresh_and_compare("DIFFERENTIAL");
    db_.exec(
        "select new_parts(400, 409); update part set p_type = 'LARGE BRASS', p_size = 15 where p_partkey % "
        "50 = 7;"
        "update orders set o_custkey = o_custkey + 1, o_orderdate = o_orderdate + 30 where o_orderkey % 71 = "
        "0;"
        "update nation set n_name = 'FRANCE' where n_name = 'PERU'; delete from customer where c_custkey % "
        "31 = 0");
    refresh_and_compare("DIFFERENTIAL");
}

TEST_F(StreamTpch, an_emptied_table_empties_what_is_made_of_it) {
    create_all("DIFFERENTIAL");
    db_.exec("truncate lineitem");
    refresh_and_compare("DIFFERENTIAL");
    db_.exec("select new_orders(20000, 20099)");
    refresh_and_compare("DIFFERENTIAL");
}
