#include "brokers/mqtt/audit_client.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto patience_with_server = 30s;

MqttHello hello_of(const MqttServer& server, const std::string& client_id) {
    MqttHello hello = server.hello;
    hello.client_id = client_id;
    hello.clean_start = false;
    hello.session_expiry = 24 * 3600;
    hello.keep_alive = 0;  // it may not be read for a long time
    return hello;
}

}  // namespace

MqttClient::MqttClient(const MqttServer& server, const std::string& client_id)
    : link_(server, hello_of(server, client_id)) {
    link_.open_wholly();
}

MqttClient::~MqttClient() {
    try {
        link_.send(write_disconnect());
        link_.flush();
    } catch (const Error&) {  // it is gone already
    }
}

void MqttClient::subscribe(const std::string& topic) {
    link_.send(write_subscribe(1, {topic}, true));
    wait_for_answer(early_);
    if (!subscribed_) throw Error("mqtt: cannot subscribe to " + topic);
}

void MqttClient::take(const MqttPacket& packet, std::vector<Received>& all) {
    if (packet.type == MqttType::suback) subscribed_ = read_answer(packet).reasons.at(0) < mqtt_failure;
    if (packet.type != MqttType::publish) return;
    const auto message = read_publish(packet.flags, packet.body);
    Received got;
    got.body = message.body;
    for (const auto& [name, value] : message.properties) got.headers[std::string(name)] = value;
    if (!message.content_type.empty()) got.headers["content-type"] = message.content_type;
    got.id = got.headers["message-id"];
    got.key = got.headers["partition-key"];
    all.push_back(std::move(got));
    if (message.packet_id != 0) link_.send(write_puback(message.packet_id));
}

void MqttClient::read(std::vector<Received>& all, milliseconds patience) {
    const std::size_t before = all.size();
    std::move(early_.begin(), early_.end(), std::back_inserter(all));
    early_.clear();
    const auto end = Clock::now() + patience;
    for (;;) {
        while (const auto packet = link_.take()) take(*packet, all);
        link_.flush();
        const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
        if (all.size() > before || left <= 0ms) return;
        link_.wait(left);
    }
}

// The server answers a ping behind everything that it has sent; what it may send after that, because some
// was acknowledged, comes before the answer to the next one.
void MqttClient::read_all(std::vector<Received>& all) {
    read(all, 0ms);
    for (std::size_t before = all.size() + 1; before != all.size();) {
        before = all.size();
        wait_for_answer(all);
    }
}

void MqttClient::wait_for_answer(std::vector<Received>& all) {
    link_.ping();
    const auto end = Clock::now() + patience_with_server;
    while (link_.unanswered() > 0) {
        if (Clock::now() > end) throw ConnectionError("mqtt: the server does not answer");
        const auto packet = link_.take();
        if (packet) take(*packet, all);
        link_.flush();
        if (!packet) link_.wait(20ms);
    }
}

void MqttClient::forget(const MqttServer& server, const std::string& client_id) {
    MqttHello hello = hello_of(server, client_id);
    hello.clean_start = true;
    hello.session_expiry = 0;
    MqttLink link(server, hello);
    link.open_wholly();
    link.send(write_disconnect());
    link.flush();
}

}  // namespace baton::brokers
