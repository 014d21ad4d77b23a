#pragma once
// A TCP connection, with TLS when asked for. Only wait() waits.

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "relay/settings.hpp"

struct addrinfo;

namespace baton::wire {

// How a sink verifies its server, and proves who it is.
struct TlsSettings {
    bool on = false;
    bool verify = true;
    std::string ca;    // file with the authorities to trust; empty: the system's
    std::string cert;  // file with our own certificate, and its key
    std::string key;
};

// Read `tls`, `tls_ca`, `tls_cert`, `tls_key` and `tls_verify`; any of them switches TLS on.
TlsSettings read_tls(const relay::Settings& settings, bool on_by_default);

class ByteStream {
  public:
    // Resolve the name and start to connect. Throws ConnectionError.
    ByteStream(const std::string& host, int port, const TlsSettings& tls);
    ~ByteStream();
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    // Go on with connecting. True when bytes can flow. This and the calls below throw ConnectionError when
    // the connection fails.
    bool ready();
    // Write as much as fits now. Returns how many bytes.
    std::size_t write(std::string_view bytes);
    // Read what is there. Returns how many bytes, 0 when nothing is there.
    std::size_t read(char* into, std::size_t room);
    // For a caller that waits for several things.
    int descriptor() const { return fd_; }
    // Wait until bytes can be read, or written.
    void wait(bool for_writing, std::chrono::milliseconds patience);

  private:
    void connect_next();
    void start_tls();
    [[noreturn]] void fail(const std::string& what);
    std::size_t tls_result(int result);

    std::string host_;
    std::string place_;
    TlsSettings tls_;
    addrinfo* addresses_ = nullptr;
    addrinfo* next_ = nullptr;
    int fd_ = -1;
    enum class Phase { connecting, handshake, open } phase_ = Phase::connecting;
    bool tls_wants_write_ = false;
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
    std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

}  // namespace baton::wire
