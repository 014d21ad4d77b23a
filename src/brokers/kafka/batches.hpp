#pragma once
// Finds out which message a Kafka broker refused.
//
// A broker refuses a batch as a whole: because one message is too large or malformed, or because all messages
// together are more than the topic takes. The broker does not say which message is at fault. So the messages
// of a refused batch are suspects: they are sent again one by one, and a message that is refused alone is
// guilty. When none is guilty, later batches are smaller.
//
//   state    a message goes    a batch is refused              as many as there were suspects are judged
//   usual    with others       its messages: suspects; alone
//   alone    alone             the message is guilty           draining
//   draining not before usual  the message is guilty           usual, when nothing is under way any more
//
// Entering and leaving `alone` takes a new producer.

#include <algorithm>
#include <cstddef>

namespace baton::brokers {

class KafkaBatches {
  public:
    static constexpr std::size_t smallest = 4096;

    explicit KafkaBatches(std::size_t bytes) : bytes_(bytes) {}

    bool alone() const { return state_ != State::usual; }
    bool draining() const { return state_ == State::draining; }
    // How many bytes a batch may have.
    std::size_t bytes() const { return bytes_; }

    // The broker refused the batch of a message. True: the message is guilty. False: the message is a
    // suspect, and the next producer sends one by one.
    bool refused() {
        if (!alone()) {
            ++suspects_;
            return false;
        }
        guilty_ = true;
        judged();
        return true;
    }
    // A message was delivered, or judged otherwise.
    void judged() {
        if (state_ == State::alone && suspects_ > 0 && --suspects_ == 0) state_ = State::draining;
    }
    // There is a new producer, with nothing under way.
    void begin() {
        if (state_ == State::draining) {
            if (!guilty_) bytes_ = std::max(bytes_ / 2, smallest);
            state_ = State::usual;
        } else if (suspects_ > 0) {
            guilty_ = guilty_ && state_ == State::alone;
            state_ = State::alone;
        }
    }

  private:
    enum class State { usual, alone, draining };
    State state_ = State::usual;
    std::size_t bytes_;
    std::size_t suspects_ = 0;  // suspects that are not judged yet
    bool guilty_ = false;       // a guilty message was found
};

}  // namespace baton::brokers
