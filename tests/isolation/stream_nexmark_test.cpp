// The queries of Nexmark as stream tables: after rows came, changed and went, each holds what its query
// gives, and none of them had to be computed in full.

#include "isolation/stream_queries.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class StreamNexmark : public StreamQueries {
  protected:
    StreamNexmark() : StreamQueries("nexmark") {}
};

}  // namespace

TEST_F(StreamNexmark, every_query_follows_its_tables) {
    create_all("DIFFERENTIAL");
    for (std::size_t i = 0; i < 22; ++i)
        EXPECT_NE(db_.value("select count(*) from " + name(i)), "0") << name(i) << " has no rows to follow";
    db_.exec("select new_persons(60, 69), new_auctions(200, 219), new_bids(2000, 2199)");
    refresh_and_compare("DIFFERENTIAL");
    db_.exec(
        "delete from bid where price % 31 = 0; update bid set price = price + 400 where bidder % 13 = 1;"
        "update auction set category = 10, expires = expires + interval '1 minute' where id % 17 = 0;"
        "update person set state = 'OR' where id % 11 = 0; delete from side_input where key % 6 = 0");
    refresh_and_compare("DIFFERENTIAL");
    db_.exec(
        "update bid set date_time = date_time + interval '2 seconds', channel = 'Apple' where auction % 19 = "
        "3;"
        "delete from auction where id % 23 = 0; select new_bids(2200, 2249); delete from person where id % 9 "
        "= 0;"
        "update bid set auction = auction + 1 where bidder % 29 = 0");
    refresh_and_compare("DIFFERENTIAL");
}

TEST_F(StreamNexmark, an_emptied_table_empties_what_is_made_of_it) {
    create_all("DIFFERENTIAL");
    db_.exec("truncate bid");
    refresh_and_compare("DIFFERENTIAL");
    db_.exec("select new_bids(3000, 3099)");
    refresh_and_compare("DIFFERENTIAL");
}
