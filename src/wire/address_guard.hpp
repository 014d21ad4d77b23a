#pragma once
// Which addresses a webhook may reach.

#include <sys/socket.h>

#include <string>

namespace baton::wire {

// True for loopback, private, link-local, shared, multicast, reserved and documentation addresses, also when
// they are wrapped into IPv6 (mapped, NAT64, 6to4), and for everything that is not IP.
bool is_private_address(const sockaddr& address);

// The address as text.
std::string show_address(const sockaddr& address);

}  // namespace baton::wire
