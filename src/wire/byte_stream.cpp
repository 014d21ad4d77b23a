#include "wire/byte_stream.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "baton/error.hpp"

namespace baton::wire {

namespace {

// Return OpenSSL's reason for the last failure, or the peer's.
std::string tls_reason(SSL* ssl) {
    if (ssl != nullptr) {
        const long verified = SSL_get_verify_result(ssl);
        if (verified != X509_V_OK) return X509_verify_cert_error_string(verified);
    }
    const auto code = ERR_peek_last_error();
    ERR_clear_error();
    if (code == 0) return "the connection was closed";
    const char* reason = ERR_reason_error_string(code);
    return reason == nullptr ? "unknown error" : reason;
}

// Write to the socket without the signal that a closed one would raise.
int quiet_write(BIO* bio, const char* bytes, int size) {
    int fd = -1;
    BIO_get_fd(bio, &fd);
    const auto sent = static_cast<int>(send(fd, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL));
    BIO_clear_retry_flags(bio);
    if (sent <= 0 && BIO_sock_should_retry(sent) != 0) BIO_set_retry_write(bio);
    return sent;
}

// OpenSSL's socket, with quiet_write in place of its own.
const BIO_METHOD* quiet_socket() {
    static const BIO_METHOD* method = [] {
        const BIO_METHOD* base = BIO_s_socket();
        BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOCKET, "quiet socket");
        BIO_meth_set_write(made, quiet_write);
        BIO_meth_set_read(made, BIO_meth_get_read(base));
        BIO_meth_set_puts(made, BIO_meth_get_puts(base));
        BIO_meth_set_ctrl(made, BIO_meth_get_ctrl(base));
        BIO_meth_set_create(made, BIO_meth_get_create(base));
        BIO_meth_set_destroy(made, BIO_meth_get_destroy(base));
        return made;
    }();
    return method;
}

}  // namespace

TlsSettings read_tls(const relay::Settings& settings, bool on_by_default) {
    TlsSettings tls;
    tls.ca = settings.text("tls_ca", "");
    tls.cert = settings.text("tls_cert", "");
    tls.key = settings.text("tls_key", "");
    tls.verify = settings.boolean("tls_verify", true);
    const bool mentioned =
        !tls.ca.empty() || !tls.cert.empty() || !tls.key.empty() || settings.has("tls_verify");
    tls.on = settings.boolean("tls", on_by_default || mentioned);
    if (tls.cert.empty() != tls.key.empty())
        settings.refuse(tls.cert.empty() ? "tls_key" : "tls_cert", "stands alone",
                        "give both tls_cert and tls_key");
    return tls;
}

ByteStream::ByteStream(const std::string& host, int port, const TlsSettings& tls)
    : host_(host), place_(host + ":" + std::to_string(port)), tls_(tls) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &addresses_);
    if (error != 0) throw ConnectionError("cannot resolve " + host + ": " + gai_strerror(error));
    next_ = addresses_;
    try {
        connect_next();
    } catch (...) {
        freeaddrinfo(addresses_);
        throw;
    }
}

ByteStream::~ByteStream() {
    ssl_.reset();
    if (fd_ >= 0) close(fd_);
    freeaddrinfo(addresses_);
}

void ByteStream::fail(const std::string& what) {
    throw ConnectionError("connection to " + place_ + ": " + what);
}

// Start with the next address that accepts a connection attempt.
void ByteStream::connect_next() {
    int error = 0;
    while (next_ != nullptr) {
        const addrinfo* address = std::exchange(next_, next_->ai_next);
        if (fd_ >= 0) close(fd_);
        fd_ = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd_ < 0) {
            error = errno;
            continue;
        }
        const int on = 1;
        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        if (connect(fd_, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS) return;
        error = errno;
    }
    if (fd_ >= 0) close(std::exchange(fd_, -1));
    fail(std::strerror(error));
}

void ByteStream::start_tls() {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_) fail("TLS: " + tls_reason(nullptr));
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    const bool trusted = tls_.ca.empty()
                             ? SSL_CTX_set_default_verify_paths(context_.get()) == 1
                             : SSL_CTX_load_verify_locations(context_.get(), tls_.ca.c_str(), nullptr) == 1;
    if (!trusted) fail("TLS: cannot read " + tls_.ca + ": " + tls_reason(nullptr));
    if (!tls_.cert.empty() &&
        (SSL_CTX_use_certificate_chain_file(context_.get(), tls_.cert.c_str()) != 1 ||
         SSL_CTX_use_PrivateKey_file(context_.get(), tls_.key.c_str(), SSL_FILETYPE_PEM) != 1))
        fail("TLS: cannot use " + tls_.cert + " with " + tls_.key + ": " + tls_reason(nullptr));
    SSL_CTX_set_verify(context_.get(), tls_.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    if (!ssl_) fail("TLS: " + tls_reason(nullptr));
    unsigned char address[sizeof(in6_addr)];
    const bool numeric =
        inet_pton(AF_INET, host_.c_str(), address) == 1 || inet_pton(AF_INET6, host_.c_str(), address) == 1;
    if (numeric) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host_.c_str());
    } else {
        SSL_set1_host(ssl_.get(), host_.c_str());
        SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host_.data());
    }
    BIO* socket = BIO_new(quiet_socket());
    BIO_set_fd(socket, fd_, BIO_NOCLOSE);
    SSL_set_bio(ssl_.get(), socket, socket);
    SSL_set_connect_state(ssl_.get());
}

bool ByteStream::ready() {
    if (phase_ == Phase::connecting) {
        pollfd poll_for{fd_, POLLOUT, 0};
        if (poll(&poll_for, 1, 0) == 0) return false;
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
            if (next_ == nullptr) fail(std::strerror(error));
            connect_next();
            return false;
        }
        if (tls_.on) start_tls();
        phase_ = tls_.on ? Phase::handshake : Phase::open;
    }
    if (phase_ == Phase::handshake) {
        const int result = SSL_do_handshake(ssl_.get());
        if (result != 1) {
            tls_result(result);
            return false;
        }
        phase_ = Phase::open;
    }
    return true;
}

// Tell "not now" from failure after a TLS call that moved nothing.
std::size_t ByteStream::tls_result(int result) {
    if (result > 0) return static_cast<std::size_t>(result);
    const int error = SSL_get_error(ssl_.get(), result);
    tls_wants_write_ = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
    if (error == SSL_ERROR_ZERO_RETURN) fail("closed by the server");
    if (error == SSL_ERROR_SYSCALL && errno != 0) fail(std::strerror(errno));
    fail("TLS: " + tls_reason(ssl_.get()));
}

std::size_t ByteStream::write(std::string_view bytes) {
    if (bytes.empty()) return 0;
    if (ssl_) {
        ERR_clear_error();
        errno = 0;
        return tls_result(SSL_write(ssl_.get(), bytes.data(),
                                    static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20))));
    }
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
    fail(std::strerror(errno));
}

std::size_t ByteStream::read(char* into, std::size_t room) {
    if (ssl_) {
        ERR_clear_error();
        errno = 0;
        return tls_result(SSL_read(ssl_.get(), into, static_cast<int>(room)));
    }
    const ssize_t received = recv(fd_, into, room, 0);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) fail("closed by the server");
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
    fail(std::strerror(errno));
}

void ByteStream::wait(bool for_writing, std::chrono::milliseconds patience) {
    short events = POLLIN;
    if (for_writing || tls_wants_write_ || phase_ == Phase::connecting) events |= POLLOUT;
    if (phase_ == Phase::connecting) events = POLLOUT;
    pollfd poll_for{fd_, events, 0};
    if (ssl_ && SSL_pending(ssl_.get()) > 0) return;
    poll(&poll_for, 1, static_cast<int>(std::clamp<std::int64_t>(patience.count(), 0, 60'000)));
}

}  // namespace baton::wire
