// A worker of libbaton whose database stops answering without closing anything.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "baton/baton.hpp"
#include "support/cluster.hpp"
#include "support/proxy.hpp"

using namespace baton::test;
using namespace std::chrono_literals;

namespace {

class FrozenClient : public testing::TestWithParam<Form> {
  protected:
    FrozenClient() {
        admin.exec("select baton.create_outbox('orders')");
        admin.exec("select baton.create_consumer_group('work', 'orders')");
    }
    void publish() { admin.exec("select baton.publish('orders', 'order.changed', '{}')"); }

    Cluster& cluster = shared_cluster(GetParam());
    std::string url = cluster.fresh_database();
    Connection admin{url};
    Proxy proxy{cluster.server().port()};
    std::atomic<int> handled{0};
    std::atomic<int> losses{0};
    baton::GroupConsumer worker{"work",
                                {.conninfo = cluster.tcp_url(url, proxy.port()),
                                 .lease = 2s,
                                 .idle = 50ms,
                                 .on_incident =
                                     [this](const baton::Incident& incident) {
                                         if (incident.kind == baton::Incident::Kind::connection_lost)
                                             ++losses;
                                     }},
                                [this](baton::Transaction&, const baton::Delivery&) { ++handled; }};
};

}  // namespace

TEST_P(FrozenClient, a_worker_notices_and_goes_on_when_the_database_answers_again) {
    std::jthread running([this](const std::stop_token& stop) { worker.run(stop); });
    publish();
    wait_until("the first is handled", [this] { return handled == 1; });
    proxy.freeze();
    wait_until("the worker notices", [this] { return losses > 0; });
    publish();
    proxy.thaw();
    wait_until("the second is handled", [this] { return handled >= 2; });
}

TEST_P(FrozenClient, a_stop_does_not_wait_for_a_frozen_database_for_ever) {
    std::atomic<bool> ended{false};
    std::jthread running([&](const std::stop_token& stop) {
        worker.run(stop);
        ended = true;
    });
    publish();
    wait_until("the first is handled", [this] { return handled == 1; });
    proxy.freeze();
    running.request_stop();
    wait_until("the worker has ended", [&] { return ended.load(); });
}

INSTANTIATE_TEST_SUITE_P(Forms, FrozenClient, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
