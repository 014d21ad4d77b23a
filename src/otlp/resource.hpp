#pragma once
// Who tells: the attributes of a resource.

#include <map>
#include <string>

namespace baton::otlp {

// Fill in the service, its instance and the name of this library, where the map has none.
void describe(std::map<std::string, std::string>& resource, const std::string& service,
              const std::string& instance);

// The name of a service that has none, as the specification wants it: unknown_service:PROGRAM.
std::string unknown_service();
// A name for this process that no other process has.
std::string make_instance_id();

}  // namespace baton::otlp
