#pragma once
// A TCP proxy on loopback that misbehaves on demand: connections that break, that go silent, that crawl.

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace baton::test {

class Proxy {
  public:
    enum class Swallow {
        nothing,
        answers,     // what clients send arrives, what the server answers is lost
        everything,  // half-open: connections look alive and carry nothing, new ones too
    };

    // Forward connections from a free port to this one; the target may change or be unreachable.
    explicit Proxy(int target_port = 0);
    ~Proxy();
    Proxy(const Proxy&) = delete;
    Proxy& operator=(const Proxy&) = delete;

    int port() const { return port_; }
    void set_target(int port) { target_port_ = port; }

    // Reset every connection; new ones are welcome.
    void cut();
    // Go silent. Back to `nothing` resets the connections that lost bytes.
    void swallow(Swallow what);
    // Stand still: nothing is carried, closed or accepted, and nothing is lost. thaw() carries on.
    void freeze();
    void thaw();
    // Carry at most this many bytes a second from clients to the server; 0: as fast as it goes.
    void limit(std::size_t bytes_per_second) { bytes_per_second_ = bytes_per_second; }
    // Reset every connection, and each new one at once: nobody is there.
    void refuse();
    // Everything is well again.
    void heal();

    std::uint64_t accepted() const { return accepted_; }  // connections so far
    std::uint64_t bytes_from_clients() const { return bytes_from_clients_; }

  private:
    struct Flow {
        int from = -1;
        int to = -1;
        std::unique_ptr<char[]> buffer;
        std::size_t begin = 0;
        std::size_t end = 0;
        bool ended = false;  // no more comes from `from`
        bool is_answer = false;
    };
    struct Pair {
        int client = -1;
        int server = -1;
        Flow up;
        Flow down;
        bool lost_bytes = false;
        bool broken = false;
    };

    void run();
    void accept_one();
    void pump(Pair& pair, Flow& flow);
    bool swallows(const Flow& flow) const;
    std::size_t allowance();
    static void reset(Pair& pair, bool orderly = false);
    void wake() const;

    int listener_ = -1;
    int wake_fd_ = -1;
    int port_ = 0;
    std::atomic<int> target_port_;
    std::atomic<bool> stop_{false};
    std::atomic<Swallow> swallow_{Swallow::nothing};
    std::atomic<bool> refuses_{false};
    std::atomic<bool> frozen_{false};
    std::atomic<std::size_t> bytes_per_second_{0};
    std::atomic<std::uint64_t> accepted_{0};
    std::atomic<std::uint64_t> bytes_from_clients_{0};
    std::uint64_t allowance_from_ = 0;  // steady microseconds at which the allowance was used up
    std::mutex mutex_;                  // guards pairs_
    std::list<Pair> pairs_;
    std::thread thread_;
};

}  // namespace baton::test
