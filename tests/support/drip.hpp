#pragma once
// Connections to a port of loopback on which a request never ends: a byte comes every now and then.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "baton/error.hpp"

namespace baton::test {

class RawConnection {
  public:
    explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            throw Error("nobody listens on port " + std::to_string(port));
    }
    ~RawConnection() {
        if (socket_ >= 0) ::close(socket_);
    }
    RawConnection(RawConnection&& other) noexcept
        : socket_(std::exchange(other.socket_, -1)), heard_(std::move(other.heard_)) {}
    RawConnection(const RawConnection&) = delete;
    RawConnection& operator=(const RawConnection&) = delete;

    // False when the other side has closed the connection.
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    // Wait until the other side has said these words, or closed the connection; what it has said since the
    // beginning.
    const std::string& hear(std::string_view words) {
        std::array<char, 4096> bytes;
        while (heard_.find(words) == std::string::npos) {
            const auto got = ::recv(socket_, bytes.data(), bytes.size(), 0);
            if (got <= 0) break;
            heard_.append(bytes.data(), static_cast<std::size_t>(got));
        }
        return heard_;
    }

  private:
    int socket_;
    std::string heard_;
};

class Dripping {
  public:
    Dripping(int port, std::size_t connections) {
        for (std::size_t i = 0; i < connections; ++i)
            connections_.emplace_back(port).send("POST /hooks/a HTTP/1.1\r\nA: ");
        thread_ = std::thread([this] {
            while (!ended_) {
                for (auto& connection : connections_) connection.send("x");
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
        });
    }
    ~Dripping() {
        ended_ = true;
        thread_.join();
    }

  private:
    std::vector<RawConnection> connections_;
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

}  // namespace baton::test
