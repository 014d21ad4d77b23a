#pragma once
// A sign that a process lives, under a name of its own. Other processes of the machine can look for the sign;
// the kernel takes it away when the process has ended, however it ended, and not before: a process that is
// stopped or hangs still shows it. So whoever holds something by lease under such a name can be followed at
// once when it is dead.

#include <string>
#include <string_view>

namespace baton {

// Make a name that no other process has, and show the sign of life under it until this process ends. Where
// the machine allows no such sign, the name says so, and nobody will take its bearer for dead.
std::string show_life();

// True only when the bearer of the name has ended for certain: it ran on this machine, since the machine was
// started, and its sign is gone. A name may be followed by a space and more.
bool life_has_ended(std::string_view name);

}  // namespace baton
