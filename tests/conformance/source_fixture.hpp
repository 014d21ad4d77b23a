#pragma once
// What a source's test tells the conformance suite about its server.

#include <map>
#include <string>

#include "relay/settings.hpp"
#include "support/cluster.hpp"
#include "support/proxy.hpp"

namespace baton::test {

using Table = std::map<std::string, relay::Settings::Value>;

class SourceFixture {
  public:
    virtual ~SourceFixture() = default;

    // Make a new, empty topic, stream or queue; returns its name.
    virtual std::string make_place() = 0;
    // What [pipeline.source] says, with `type`; the way leads through the proxy. `reader` is a name that no
    // other reader has at that time. Time limits should be a second or two, so that faults show soon.
    virtual Table source(const std::string& place, const std::string& reader) = 0;
    // What a [pipeline.sink] would say that publishes there, straight to the server; and the destination.
    virtual Table sink() = 0;
    virtual std::string destination(const std::string& place) { return place; }
    // How many messages the broker would still deliver to the pipeline "in", now that nobody reads.
    virtual std::size_t held(const std::string& place) = 0;
    // Wait, while the pipeline reads, until nothing more comes that has arrived already: what was committed
    // before a fault and not acknowledged comes again when the broker finds out.
    virtual void wait_for_quiet(const std::string& place) {
        wait_until(
            "the broker holds nothing back", [&] { return held(place) == 0; }, std::chrono::seconds(120));
    }
    // A place that is not there.
    virtual bool knows_missing_places() const { return true; }

    virtual void kill_broker() = 0;
    virtual void start_broker() = 0;
    virtual Proxy& proxy() = 0;

    // One reader gets the messages of a key in order,
    virtual bool orders() const { return true; }
    // ... also those that are delivered again.
    virtual bool orders_redelivery() const { return orders(); }
    // How many of so many messages are given out before any is acknowledged.
    virtual std::size_t readable(std::size_t sent) const { return sent; }
    virtual bool keeps_empty_headers() const { return true; }
    // The longest body that it takes.
    virtual std::size_t largest_body() const { return 900'000; }
    // The source goes to its server, so it can tell that there is none.
    virtual bool knows_unreachable() const { return true; }
};

// The tests, each on any fixture and a PostgreSQL server. Names say what holds.
namespace conformance {
void every_message_arrives_once_with_its_id_headers_and_body(SourceFixture& fixture, Cluster& cluster);
void what_was_committed_and_not_acknowledged_comes_again_as_a_duplicate(SourceFixture& fixture,
                                                                        Cluster& cluster);
void nothing_is_acknowledged_before_the_inbox_has_committed(SourceFixture& fixture, Cluster& cluster);
void nothing_is_lost_when_the_broker_is_killed_in_the_middle(SourceFixture& fixture, Cluster& cluster);
void nothing_is_lost_and_order_holds_while_connections_are_cut(SourceFixture& fixture, Cluster& cluster);
void a_half_open_connection_is_given_up_and_all_arrives(SourceFixture& fixture, Cluster& cluster);
void nothing_is_lost_when_the_database_is_killed_in_the_middle(SourceFixture& fixture, Cluster& cluster);
void nothing_is_lost_when_the_relay_is_killed_again_and_again(SourceFixture& fixture, Cluster& cluster);
void what_cannot_be_read_is_kept_with_its_bytes_and_the_others_go_on(SourceFixture& fixture,
                                                                     Cluster& cluster);
void a_slow_inbox_slows_the_source_and_does_not_fill_memory(SourceFixture& fixture, Cluster& cluster);
void readers_come_and_go_and_nothing_is_lost(SourceFixture& fixture, Cluster& cluster);
void a_graceful_stop_leaves_nothing_unacknowledged_that_was_committed(SourceFixture& fixture,
                                                                      Cluster& cluster);
void an_inbox_that_is_missing_is_waited_for(SourceFixture& fixture, Cluster& cluster);
void check_tells_a_reachable_broker_from_one_that_is_not(SourceFixture& fixture, Cluster& cluster);
}  // namespace conformance

}  // namespace baton::test
