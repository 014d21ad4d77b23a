// The 22 queries of TPC-H as stream tables: after rows came, changed and went, each holds what its query
// gives, and none of them had to be computed in full.

#include "isolation/stream_queries.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamTpch : public StreamQueries {
  protected:
    StreamTpch() : StreamQueries("tpch") {}
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

TEST_F(StreamTpch, every_query_is_refreshed_in_full) {
    create_all("FULL");
    db_.exec("select new_orders(3000, 3049); delete from lineitem where l_orderkey % 97 = 0");
    refresh_and_compare("FULL");
}

TEST_F(StreamTpch, every_query_follows_in_the_transaction_that_writes) {
    create_all("IMMEDIATE");
    db_.exec(
        "begin; select new_orders(3000, 3004); delete from lineitem where l_orderkey % 197 = 0;"
        "update supplier set s_acctbal = s_acctbal + 1 where s_suppkey % 10 = 3");
    compare();
    db_.exec("commit");
    compare();
}
