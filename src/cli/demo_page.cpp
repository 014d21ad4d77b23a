#include "cli/demo_page.hpp"

#include <fmt/format.h>

#include <fstream>
#include <random>

#include "assembly/catalog.hpp"
#include "cli/pipeline_answers.hpp"

namespace fs = std::filesystem;

namespace baton::cli {

namespace {

std::string make_token() {
    std::random_device random;
    std::string token;
    for (int i = 0; i < 6; ++i) token += fmt::format("{:08x}", random());
    return token;
}

// Only the owner may read it.
std::string write_token(const fs::path& file, const std::string& token) {
    fs::remove(file);
    std::ofstream(file).close();
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    std::ofstream(file) << "demo operator " << token << "\n";
    return file.string();
}

std::string now_as_text() {
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::string text(20, '\0');
    std::tm parts{};
    std::strftime(text.data(), text.size() + 1, "%FT%TZ", ::gmtime_r(&now, &parts));
    return text;
}

server::ApiSettings settings_for(const std::string& db, const std::string& token_file,
                                 const DemoRelays& relays) {
    server::ApiSettings settings{.db = db, .token_file = token_file};
    settings.relay = [&relays, started = now_as_text()]() -> std::optional<server::RelayNow> {
        return server::RelayNow{relays.name(), relays.statuses(), {}, started};
    };
    settings.render = [](postgres::Connection& connection, const std::string& pipeline, int events) {
        return render_pipeline(connection, assembly::read_catalog(connection), pipeline, events);
    };
    return settings;
}

}  // namespace

DemoPage::DemoPage(const std::string& db, const fs::path& folder, const DemoRelays& relays)
    : token_(make_token()),
      api_(settings_for(db, write_token(folder / "demo.token", token_), relays)),
      endpoints_("127.0.0.1:0", {}, &api_) {}

std::string DemoPage::link() const {
    return fmt::format("http://127.0.0.1:{}/#token={}", endpoints_.port(), token_);
}

}  // namespace baton::cli
