#include "brokers/amqp1/receiver.hpp"

#include "wire/access_refused.hpp"

namespace baton::brokers {

using namespace std::chrono_literals;

Amqp1Receiver::Amqp1Receiver(const Amqp1Server& server, const std::string& container,
                             const std::string& address, int credit)
    : connection_(server, container), address_(address), credit_(credit) {
    connection_.open_wholly();
    link_ = connection_.receiver(address);
    connection_.need(link_, address);
    give_credit();
    connection_.move();
}

// In steps, so that not every message is followed by a frame.
void Amqp1Receiver::give_credit() {
    const int more = credit_ - held_ - pn_link_credit(link_);
    if (more > 0 && more >= credit_ / 4) pn_link_flow(link_, more);
}

void Amqp1Receiver::move() {
    connection_.move();
    while (pn_event_t* event = connection_.next()) {
        const auto type = pn_event_type(event);
        if (type != PN_LINK_REMOTE_CLOSE && type != PN_LINK_REMOTE_DETACH) continue;
        closed_ = true;
        const auto error = Amqp1Error::of(pn_link_remote_condition(link_));
        if (pn_link_state(link_) & PN_LOCAL_CLOSED) continue;  // as we asked
        if (error.is_refusal()) throw wire::AccessRefused(connection_.words_of_end(address_, error));
        throw Amqp1Ended(error, connection_.words_of_end(address_, error));
    }
}

std::optional<Amqp1Receiver::Taken> Amqp1Receiver::take() {
    for (;;) {
        pn_delivery_t* delivery = pn_link_current(link_);
        if (delivery == nullptr) return std::nullopt;
        if (pn_delivery_aborted(delivery)) {
            partial_.clear();
            pn_delivery_settle(delivery);
            continue;
        }
        // What has come is taken even when more is to come: the session holds a large message in parts only.
        const std::size_t pending = pn_delivery_pending(delivery);
        const std::size_t before = partial_.size();
        partial_.resize(before + pending);
        const auto got = pending > 0 ? pn_link_recv(link_, partial_.data() + before, pending) : 0;
        partial_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (pn_delivery_partial(delivery)) return std::nullopt;
        pn_link_advance(link_);
        ++held_;
        Taken taken{delivery, std::move(partial_)};
        partial_.clear();
        return taken;
    }
}

void Amqp1Receiver::accept(pn_delivery_t* delivery) {
    pn_delivery_update(delivery, PN_ACCEPTED);
    pn_delivery_settle(delivery);
    --held_;
    give_credit();
}

void Amqp1Receiver::leave(std::chrono::milliseconds patience) {
    const auto end = Amqp1Connection::Clock::now() + patience;
    for (pn_delivery_t* delivery = pn_unsettled_head(link_); delivery != nullptr;) {
        pn_delivery_t* next = pn_unsettled_next(delivery);
        pn_delivery_update(delivery, PN_RELEASED);
        pn_delivery_settle(delivery);
        delivery = next;
    }
    pn_link_close(link_);
    for (;;) {
        move();
        if (closed_ || Amqp1Connection::Clock::now() > end) break;
        connection_.wait(20ms);
    }
    connection_.close();
}

}  // namespace baton::brokers
