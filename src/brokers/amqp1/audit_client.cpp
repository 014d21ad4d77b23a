#include "brokers/amqp1/audit_client.hpp"

#include <random>

namespace baton::brokers {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto patience_with_broker = 30s;
constexpr const char* mark_prefix = "baton-mark-";
constexpr int credit = 1000;

Received received(const intake::Incoming& message) {
    Received got;
    got.id = message.message_id.value_or("");
    got.key = message.key.value_or("");
    got.body = message.body.value_or("");
    for (const auto& header : message.headers) got.headers[std::string(header.name)] = header.value;
    if (!message.content_type.empty()) got.headers["content-type"] = message.content_type;
    return got;
}

}  // namespace

Amqp1Client::Amqp1Client(const Amqp1Server& server, const std::string& address)
    : address_(address), receiver_(server, "baton-audit-" + address, address, credit) {}

void Amqp1Client::take(std::vector<Received>& all) {
    receiver_.move();
    intake::BrokerBatch batch;
    while (auto taken = receiver_.take()) {
        Received got = received(codec_.decode(std::move(taken->bytes), batch));
        if (got.id == mark_)
            mark_came_ = true;
        else if (!got.id.starts_with(mark_prefix))  // of a reading that did not come to its end
            all.push_back(std::move(got));
        receiver_.accept(taken->delivery);
    }
    receiver_.move();
}

void Amqp1Client::read(std::vector<Received>& all, milliseconds patience) {
    const std::size_t before = all.size();
    const auto end = Clock::now() + patience;
    for (;;) {
        take(all);
        const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
        if (all.size() > before || left <= 0ms) return;
        receiver_.connection().wait(left);
    }
}

void Amqp1Client::send_mark() {
    mark_ = mark_prefix + std::to_string(std::random_device()());
    Message message;
    message.message_id = mark_;
    const std::string bytes = codec_.encode(message);
    pn_link_t* link = receiver_.connection().sender(address_);
    receiver_.connection().need(link, address_);
    pn_delivery(link, pn_dtag("mark", 4));
    pn_link_send(link, bytes.data(), bytes.size());
    pn_link_advance(link);
}

// A queue gives first what came first: what is there comes before a message that we put behind it. A broker
// that is asked to drain the link would be shorter, but Artemis says that it has done so before it has.
void Amqp1Client::read_rest(std::vector<Received>& all) {
    auto end = Clock::now() + patience_with_broker;
    send_mark();
    for (std::size_t before = all.size(); !mark_came_;) {
        take(all);
        if (all.size() > before) end = Clock::now() + patience_with_broker;
        before = all.size();
        if (Clock::now() > end) throw ConnectionError("amqp1: the broker sends nothing more");
        if (!mark_came_) receiver_.connection().wait(20ms);
    }
    receiver_.leave(patience_with_broker);
}

void Amqp1Client::make(const Amqp1Server& server, const std::string& address) {
    Amqp1Connection connection(server, "baton-audit-" + address);
    connection.open_wholly();
    connection.need(connection.sender(address), address);
    connection.close();
}

}  // namespace baton::brokers
