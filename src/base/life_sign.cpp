#include "base/life_sign.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace baton {

namespace {

std::string in_hex(std::uint64_t number) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text(16, '0');
    for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U)
        *digit = digits[number & 15U];
    return text;
}

// This start of this machine, and the network namespace in it: signs are seen there and nowhere else. Empty
// when the system does not tell.
std::string find_place() {
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    std::error_code failed;
    const auto space = std::filesystem::read_symlink("/proc/self/ns/net", failed);
    if (boot.empty() || failed) return {};
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same in every build
    for (const char c : boot + space.string()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return in_hex(hash);
}

// The address of a sign: a name that lives in the kernel and in no folder.
struct Address {
    explicit Address(std::string_view sign) {
        const std::string text = "baton " + std::string(sign);
        all.sun_family = AF_UNIX;
        std::memcpy(all.sun_path + 1, text.data(), text.size());
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    }
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&all); }

    sockaddr_un all{};
    socklen_t length;
};

int open_socket() {
    return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

// The socket stays open for as long as the process lives.
bool show(std::string_view sign) {
    const int socket = open_socket();
    if (socket < 0) return false;
    const Address address(sign);
    if (::bind(socket, address.get(), address.length) == 0) return true;
    ::close(socket);
    return false;
}

constexpr std::size_t sign_length = 16 + 1 + 16;  // chance:place

}  // namespace

std::string show_life() {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    // In containers host and process may be the same; who has another's name takes groups away from it.
    std::random_device random;
    const std::string chance = in_hex(std::uint64_t{random()} << 32U | random());
    const std::string name = std::string(host.data()) + ":" + std::to_string(::getpid()) + ":";
    const std::string place = find_place();
    if (place.empty() || !show(chance + ":" + place)) return name + chance;
    return name + chance + ":" + place;
}

bool life_has_ended(std::string_view name) {
    name = name.substr(0, name.find(' '));
    static const std::string place = find_place();
    if (place.empty() || name.size() <= sign_length) return false;
    const auto sign = name.substr(name.size() - sign_length);
    if (name[name.size() - sign_length - 1] != ':' || sign[16] != ':' || sign.substr(17) != place)
        return false;
    const int socket = open_socket();
    if (socket < 0) return false;
    const Address address(sign);
    const bool is_gone = ::connect(socket, address.get(), address.length) != 0 && errno == ECONNREFUSED;
    ::close(socket);
    return is_gone;
}

}  // namespace baton
