#pragma once
// A message as it was found at the broker.

#include <map>
#include <string>

namespace baton::brokers {

struct Received {
    std::string id;
    std::string key;
    std::string body;
    std::map<std::string, std::string> headers;  // may hold more than was sent
};

}  // namespace baton::brokers
