#include "cli/demo_stay.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <thread>

#include "baton/error.hpp"
#include "cli/demo_shop.hpp"

namespace baton::cli {

using namespace std::chrono_literals;
using postgres::Connection;

namespace {

// Takes parcels that have a weight.
class Carrier {
  public:
    explicit Carrier(int port) {
        server_.Post(".*", [](const httplib::Request& request, httplib::Response& response) {
            if (request.body.find("\"grams\": null") == std::string::npos) return;
            response.status = 422;
            response.set_content("a parcel needs its weight: grams is null", "text/plain");
        });
        port_ = port == 0 ? server_.bind_to_any_port("127.0.0.1")
                          : (server_.bind_to_port("127.0.0.1", port) ? port : -1);
        if (port_ < 0) throw Error("another program has taken the carrier's port");
        thread_ = std::thread([this] { server_.listen_after_bind(); });
    }
    ~Carrier() {
        server_.stop();
        thread_.join();
    }
    int port() const { return port_; }

  private:
    httplib::Server server_;
    int port_;
    std::thread thread_;
};

void send_parcel(Connection& db, int number, const char* grams) {
    db.query(
        "select baton.publish('shop.parcels', 'parcel.sent', jsonb_build_object('parcel', $1::int, 'to', "
        "(array['Ulm', 'Lyon', 'Turin', 'Ghent'])[1 + $1::int % 4], 'grams', $2::int), 'parcel', $1::int)",
        {number, grams == nullptr ? postgres::Param(nullptr) : postgres::Param(grams)});
}

// Wait until the carrier has refused the parcel.
void wait_for_dead_letter(Connection& db, const StopSignal& stop) {
    while (db.value("select count(*) from baton.dead_letters where group_name = 'demo_parcels'") == "0") {
        stop.check();
        std::this_thread::sleep_for(50ms);
    }
}

// True when somebody pressed Enter. The end of stdin is not a line.
bool line_came() {
    static bool ended = false;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (ended || ::poll(&input, 1, 0) <= 0) return false;
    std::array<char, 256> line;
    const auto got = ::read(STDIN_FILENO, line.data(), line.size());
    ended = got <= 0;
    return !ended;
}

void say(const std::string& what) {
    fmt::print("  {}\n", what);
    std::fflush(stdout);
}

}  // namespace

void stay(const std::string& db_url, DemoRelays& relays, const std::string& link, const std::string& folder,
          const StopSignal& stop) {
    Connection db(db_url, "baton demo");
    std::optional<Carrier> carrier(0);
    const int port = carrier->port();
    relays.start();
    relays.start_parcels(fmt::format("http://127.0.0.1:{}/parcels", port));
    send_parcel(db, 1, nullptr);
    wait_for_dead_letter(db, stop);
    carrier.reset();
    Shop shop(db_url);
    shop.open(1, 24h * 365, 150ms);

    fmt::print(
        "\n  The shop stays open for you. Its carrier does not answer, and parcel 1 was refused: it is a "
        "dead letter.\n");
    say("page     " + link);
    say("commands baton status --data-dir " + folder);
    say("Enter brings the carrier back; Ctrl-C ends");
    for (int parcel = 2; !stop.requested(); ++parcel) {
        send_parcel(db, parcel, std::to_string(100 + parcel * 37 % 900).c_str());
        for (int i = 0; i < 10 && !stop.requested(); ++i) {
            stop.wait_a_moment();
            if (!line_came()) continue;
            if (carrier)
                carrier.reset();
            else
                carrier.emplace(port);
            say(carrier ? "the carrier is back and takes what waited; Enter takes it away again"
                        : "the carrier is away again");
        }
        if (const auto failure = shop.failure(); !failure.empty())
            throw Error("the shop broke down: " + failure);
    }
    shop.abandon();
    relays.stop();
}

}  // namespace baton::cli
