#pragma once
// A request to the API taken apart: its path, and its arguments as the operations want them.

#include <httplib.h>

#include <string>
#include <vector>

#include "server/endpoints.hpp"

namespace baton::server {

// The parts of a path that lie below /api/v1, decoded. Throws Problem when they are no text.
std::vector<std::string> path_parts(const httplib::Request& request);

// Which endpoint a request means.
class Routes {
  public:
    Routes();
    // Throws Problem: 404, and 405 with the methods that there are in `allowed`.
    const Endpoint& find(const std::string& method, const std::vector<std::string>& parts,
                         std::string& allowed) const;

  private:
    struct Route {
        const Endpoint* endpoint;
        std::vector<std::string> parts;  // {name} stands for anything
        int fit(const std::vector<std::string>& asked) const;
    };
    std::vector<Route> routes_;
};

// The arguments: those of the path, and those of the query or of the body. Throws Problem 400.
operations::Json arguments_of(const operations::Operation& operation, const httplib::Request& request,
                              const std::vector<std::string>& parts, const std::string& body);

// Read the body: at most 1 MB of JSON. Throws Problem: 400, 413, 415.
std::string read_body(const httplib::Request& request, const httplib::Response& response,
                      const httplib::ContentReader& reader);

}  // namespace baton::server
