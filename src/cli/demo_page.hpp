#pragma once
// The dashboard of the demo: the page shows the shop while it is open.

#include <filesystem>
#include <string>

#include "cli/demo_relays.hpp"
#include "server/api.hpp"
#include "server/status_server.hpp"

namespace baton::cli {

class DemoPage {
  public:
    // Serve the page on a free port of loopback. A token for it is written into the folder.
    DemoPage(const std::string& db, const std::filesystem::path& folder, const DemoRelays& relays);

    // Whoever opens the link is signed in as an operator: the page takes the token from behind the `#`, which
    // no server is ever sent, and forgets it.
    std::string link() const;

  private:
    std::string token_;
    server::Api api_;
    server::StatusServer endpoints_;
};

}  // namespace baton::cli
