#pragma once
// The sieve before the judge, see sift.cpp.

namespace baton::sift {

// Read the mark anew for the next event. At the end of an era the mark is raised, so that the running
// transaction may not use lower ids any more.
void forget_mark();

}  // namespace baton::sift
