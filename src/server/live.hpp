#pragma once
// Streams of server-sent events to pages that are open. One thread writes to all of them; whoever does not
// read is left behind, and nobody waits for anybody.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace baton::server {

class LiveStreams {
  public:
    static constexpr std::size_t most = 32;

    // `tick` makes the text of a tick's data; it must not wait.
    explicit LiveStreams(std::function<std::string()> tick);
    ~LiveStreams();
    // Nothing is sent any more, and `tick` is not called again.
    void stop();
    LiveStreams(const LiveStreams&) = delete;
    LiveStreams& operator=(const LiveStreams&) = delete;

    // Keep a place for a stream; false when there is none.
    bool reserve();
    // Give back a place for which no stream came.
    void release() { --reserved_; }
    // Take a connection that does not block, after its head was sent. The place was reserved.
    void add(int socket);
    // Tell all streams.
    void send(const std::string& event, const std::string& data);

    std::size_t count() const { return reserved_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Stream {
        int socket;
        std::string waiting;  // bytes that the socket has not taken
        Clock::time_point since;
        bool open = true;
    };

    void work(const std::stop_token& stop);
    void wait_for_news(Clock::time_point until);
    void take_news();
    void push(Stream& stream, const std::string& text);
    void look(Stream& stream);
    void drop_closed();
    void wake() const;

    const std::function<std::string()> tick_;
    std::atomic<std::size_t> reserved_{0};
    int bell_;          // rings when there is something to do
    std::mutex mutex_;  // guards the two that follow
    std::vector<int> arrived_;
    std::string told_;
    std::vector<Stream> streams_;  // of the thread
    std::jthread thread_;
};

}  // namespace baton::server
