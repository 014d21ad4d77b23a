#include "wire/address_guard.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace baton::wire {

namespace {

struct Block4 {
    std::uint32_t network;
    int bits;
};

// IANA's special-purpose registry: what is not globally reachable.
constexpr std::array<Block4, 15> blocks4{{
    {0x00000000, 8},   // this network
    {0x0A000000, 8},   // private
    {0x64400000, 10},  // shared (carrier-grade NAT)
    {0x7F000000, 8},   // loopback
    {0xA9FE0000, 16},  // link-local, cloud metadata among it
    {0xAC100000, 12},  // private
    {0xC0000000, 24},  // protocol assignments
    {0xC0000200, 24},  // documentation
    {0xC0586300, 24},  // 6to4 relays
    {0xC0A80000, 16},  // private
    {0xC6120000, 15},  // benchmarks
    {0xC6336400, 24},  // documentation
    {0xCB007100, 24},  // documentation
    {0xE0000000, 4},   // multicast
    {0xF0000000, 4},   // reserved, broadcast
}};

bool is_private4(std::uint32_t address) {
    return std::any_of(blocks4.begin(), blocks4.end(), [address](const Block4& block) {
        return (address ^ block.network) >> (32 - block.bits) == 0;
    });
}

std::uint32_t word_at(const std::uint8_t* bytes) {
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
           bytes[3];
}

bool is_private6(const in6_addr& address) {
    const std::uint8_t* bytes = address.s6_addr;
    constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    constexpr std::uint8_t nat64[12] = {0, 0x64, 0xFF, 0x9B};
    if (std::memcmp(bytes, mapped, 12) == 0 || std::memcmp(bytes, nat64, 12) == 0)
        return is_private4(word_at(bytes + 12));
    if (bytes[0] == 0x20 && bytes[1] == 0x02) return is_private4(word_at(bytes + 2));  // 6to4
    // Only 2000::/3 is handed out; of that, 2001::/23 and the documentation blocks are not for use.
    if ((bytes[0] & 0xE0) != 0x20) return true;
    const std::uint32_t first = word_at(bytes);
    return first == 0x20010DB8 || first >> 9 == 0x20010000U >> 9 || first >> 12 == 0x3FFF0;
}

}  // namespace

bool is_private_address(const sockaddr& address) {
    if (address.sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        return is_private4(ntohl(four.sin_addr.s_addr));
    }
    if (address.sa_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &address, sizeof six);
        return is_private6(six.sin6_addr);
    }
    return true;
}

std::string show_address(const sockaddr& address) {
    char text[INET6_ADDRSTRLEN] = "an address that is not IP";
    if (address.sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    } else if (address.sa_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &address, sizeof six);
        inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    }
    return text;
}

}  // namespace baton::wire
