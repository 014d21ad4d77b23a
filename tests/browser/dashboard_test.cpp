// The dashboard in a real browser, over a real relay, broker and database.

#include <gtest/gtest.h>

#include "stage.hpp"
#include "support/broker.hpp"

namespace baton::test {
namespace {

class Dashboard : public testing::Test {
  protected:
    static void SetUpTestSuite() { stage = std::make_unique<Stage>(); }
    static void TearDownTestSuite() { stage.reset(); }
    static void play(const std::string& scenario) { EXPECT_EQ(stage->play(scenario), ""); }

    static std::unique_ptr<Stage> stage;
};

std::unique_ptr<Stage> Dashboard::stage;

TEST_F(Dashboard, every_page_is_accessible_in_light_and_dark_and_fits_a_phone) {
    play("every_page");
}
TEST_F(Dashboard, the_first_load_is_small_and_asks_no_other_origin) {
    play("first_load");
}
TEST_F(Dashboard, pages_show_what_a_real_pipeline_does) {
    play("real_data");
}
TEST_F(Dashboard, a_viewer_cannot_change_anything) {
    play("viewer");
}
TEST_F(Dashboard, everything_is_reached_by_keyboard) {
    play("keyboard");
}
TEST_F(Dashboard, a_dead_letter_is_edited_and_replayed_by_clicking_and_arrives) {
    play("dead_letter");
}
TEST_F(Dashboard, many_dead_letters_are_replayed_or_discarded_after_a_question) {
    play("many_dead_letters");
}
TEST_F(Dashboard, gaps_and_blocked_keys_go_on_by_clicking) {
    play("blocked");
}
TEST_F(Dashboard, groups_pipelines_stream_tables_and_messages_are_changed_by_clicking) {
    play("changes");
}
TEST_F(Dashboard, a_broker_that_stops_is_told_of_and_so_is_its_return) {
    play("broker_stops");
}
TEST_F(Dashboard, a_broker_goes_and_comes_and_what_it_refused_is_mended_and_arrives) {
    play("journey");
}
TEST_F(Dashboard, alerts_leases_jobs_and_findings_are_seen_as_they_come_and_go) {
    play("upkeep");
}
TEST_F(Dashboard, an_inbox_shows_what_waits_what_was_handled_and_what_is_dead) {
    play("inbox_page");
}
TEST_F(Dashboard, without_a_relay_inside_it_shows_what_all_relays_do) {
    play("without_relay");
}
TEST_F(Dashboard, a_lost_connection_is_told_of_and_made_again) {
    play("connection_lost");
}
// The last one: its names would be on the pictures of the others.
TEST_F(Dashboard, names_and_payloads_stay_text_whatever_they_hold) {
    play("hostile");
}

}  // namespace
}  // namespace baton::test
