#include "brokers/stdout/sink.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "brokers/lease_is_over.hpp"
#include "wire/json_lines.hpp"

namespace baton::brokers {

namespace {

class StdoutSink final : public relay::Sink {
  public:
    StdoutSink() {
        // A reader that goes away is an error to report, not the end of the relay.
        ::signal(SIGPIPE, SIG_IGN);
    }

    relay::SinkTraits traits() const override { return {.keeps_order_after_failure = true}; }

    void check() override {}

    void send(std::span<const Message> messages) override {
        std::string buffer = rest_;
        std::vector<std::size_t> ends;
        for (const auto& message : messages) {
            wire::append_json_line_of(buffer, message);
            ends.push_back(buffer.size());
        }
        // After a failure nothing is written until that is known: no later message may overtake.
        if (!may_send()) error_ = lease_is_over;
        const std::size_t written = error_.empty() ? write(buffer) : 0;
        for (std::size_t i = 0; i < messages.size(); ++i) {
            const bool out = ends[i] <= written;
            done_.push_back({messages[i].ticket,
                             out ? relay::Verdict::delivered : relay::Verdict::retry,
                             out ? std::string() : error_,
                             {}});
        }
        keep_rest(buffer, ends, written);
    }

    void collect(std::vector<relay::Delivery>& deliveries, relay::milliseconds) override {
        std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
        done_.clear();
        error_.clear();
    }

  private:
    // Return how much went out; error_ says why not all.
    std::size_t write(const std::string& buffer) {
        std::size_t written = 0;
        while (written < buffer.size()) {
            const auto count = ::write(STDOUT_FILENO, buffer.data() + written, buffer.size() - written);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) {
                error_ = std::string("cannot write to standard output: ") + std::strerror(errno);
                break;
            }
            written += static_cast<std::size_t>(count);
        }
        return written;
    }

    // Remember the end of a line that was cut, to be written before anything else: lines stay whole.
    void keep_rest(const std::string& buffer, const std::vector<std::size_t>& ends, std::size_t written) {
        std::size_t line_begin = rest_.size();
        if (written < line_begin) {
            rest_.erase(0, written);
            return;
        }
        rest_.clear();
        for (const std::size_t line_end : ends) {
            if (written > line_begin && written < line_end)
                rest_ = buffer.substr(written, line_end - written);
            line_begin = line_end;
        }
    }

    std::vector<relay::Delivery> done_;
    std::string error_;
    std::string rest_;
};

}  // namespace

std::unique_ptr<relay::Sink> make_stdout_sink(const relay::Settings&) {
    return std::make_unique<StdoutSink>();
}

}  // namespace baton::brokers
