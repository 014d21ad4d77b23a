#pragma once
// What a sink's test tells the conformance suite about its server.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brokers/received.hpp"
#include "event/event.hpp"
#include "relay/settings.hpp"
#include "support/proxy.hpp"

namespace baton::test {

using brokers::Received;

class SinkFixture {
  public:
    virtual ~SinkFixture() = default;

    // Make a new, empty place to send to; returns what Message::destination is to be.
    virtual std::string make_destination() = 0;
    // What [pipeline.sink] would say, with `type`; the way leads through the proxy where there is one. Time
    // limits should be a second or two, so that faults show soon.
    virtual relay::Settings settings(const std::string& destination) = 0;
    // Everything at the destination, by a way around the proxy, oldest first (at least within each key).
    virtual std::vector<Received> read_all(const std::string& destination) = 0;

    // Kill the server hard, and start it again on its data. A sink without a server leaves these alone.
    virtual bool has_broker() const { return true; }
    virtual void kill_broker() {}
    virtual void start_broker() {}
    // The way to the server; null when there is none.
    virtual Proxy* proxy() { return nullptr; }

    // Turn this message into one that the server refuses for good; `storage` keeps its bytes.
    // False when this sink has no such message.
    virtual bool poison(Message& message, std::string& storage) = 0;

    // Take away from the sink what it needs to write here, a right or the server's good will, and give it
    // back. False where that cannot be.
    virtual bool shut(const std::string&) { return false; }
    virtual void open(const std::string&) {}
    // Name a destination that is not there, and make it. Empty where every name is a destination.
    virtual std::string name_missing() { return {}; }
    virtual void make_missing(const std::string&) {}
    // The settings with a login that the server refuses; nothing where it asks for none.
    virtual std::optional<relay::Settings> with_wrong_login(const std::string&) { return std::nullopt; }

    // Tell whether the body that came is the one that was sent.
    virtual bool same_body(std::string_view got, std::string_view sent) const { return got == sent; }
    virtual std::size_t largest_body() const { return 1024 * 1024; }
    virtual bool shows_key() const { return true; }      // read_all gives keys back
    virtual bool deduplicates() const { return false; }  // the server keeps one copy of an id
    virtual std::size_t messages_per_test() const { return 1600; }
};

// The tests, each on any fixture. Names say what holds.
namespace conformance {
void every_event_arrives_with_its_id_headers_and_body(SinkFixture& fixture);
void each_key_keeps_its_order_while_connections_break(SinkFixture& fixture);
void nothing_is_lost_when_the_broker_is_killed_in_the_middle(SinkFixture& fixture);
void a_sink_made_while_its_broker_is_away_delivers_once_it_is_back(SinkFixture& fixture);
void a_half_open_connection_is_given_up_and_all_arrives(SinkFixture& fixture);
void lost_answers_leave_only_copies_with_the_same_id(SinkFixture& fixture);
void a_slow_broker_slows_the_sink_and_does_not_fill_memory(SinkFixture& fixture);
void a_poison_message_is_rejected_and_the_others_go_on(SinkFixture& fixture);
void a_second_delivery_carries_the_same_id(SinkFixture& fixture);
void what_was_reported_is_there_after_the_sink_is_gone(SinkFixture& fixture);
void a_sink_with_messages_in_flight_can_be_destroyed(SinkFixture& fixture);
void check_tells_a_reachable_broker_from_one_that_is_not(SinkFixture& fixture);
void a_wrong_login_is_waited_for_and_rejects_nothing(SinkFixture& fixture);
void a_missing_destination_is_waited_for_and_gets_all_once_it_is_there(SinkFixture& fixture);
void nothing_leaves_a_sink_that_may_not_send_and_all_of_it_once_it_may(SinkFixture& fixture);
void headers_of_a_message_do_not_stand_for_its_id(SinkFixture& fixture);
void what_is_refused_in_the_middle_of_a_key_is_overtaken_by_none_of_it(SinkFixture& fixture);
}  // namespace conformance

}  // namespace baton::test
