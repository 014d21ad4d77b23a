#pragma once
// A table that was there before baton, relays that drain the table, and a webhook that receives the events.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "adopted_layouts.hpp"
#include "brokers/http/tests/receiver.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

// A table with some rows, and the relay's ways to it.
class Table {
  public:
    explicit Table(const Layout& layout) : layout_(layout) {
        db.exec(layout.ddl);
        db.query("select baton.adopt_outbox(quote_ident($1), mapping => $2)", {layout.table, layout.mapping});
    }

    void insert(int from, int upto) {
        for (int n = from; n <= upto; ++n) db.query(layout_.insert, {"k" + std::to_string(n % keys), n});
    }
    std::string value(const std::string& sql) { return db.value(sql); }
    std::string open() {
        return db.value("select pending + claimed from baton.adopted_status(quote_ident($1))",
                        {layout_.table});
    }
    std::string name() { return db.value("select quote_ident($1)", {layout_.table}); }

    static constexpr int keys = 6;
    std::string url = shared_cluster(Form::plain).fresh_database();
    Connection db{url};

  private:
    const Layout& layout_;
};

class Receiver {
  public:
    Receiver() { webhook.start(); }

    std::vector<int> numbers() const {
        std::vector<int> all;
        for (const auto& request : webhook.kept()) all.push_back(number_of(request));
        return all;
    }
    static int number_of(const WebhookRequest& request) {
        return nlohmann::json::parse(request.body).at("n");
    }
    std::string sink() const {
        return "type = \"http\"\nallow_private = true\nurl = \"http://127.0.0.1:" +
               std::to_string(webhook.port()) + "/\"\n";
    }

    WebhookReceiver webhook;
};

class Relays {
  public:
    explicit Relays(Table& table) : table_(table) {}

    void configure(const std::string& sink, const std::string& source = {}, const std::string& more = {},
                   const std::string& lease = "2s") {
        nlohmann::json name = table_.name();
        std::ofstream(folder / "relay.toml")
            << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = " << name.dump() << "\nlease = \""
            << lease << "\"\n"
            << source << "\n[pipeline.sink]\n"
            << sink << more;
    }
    Process start(const std::string& log) const {
        return start_baton({"relay", "--db", table_.url, "--config", (folder / "relay.toml").string()},
                           folder / (log + ".out"), folder / (log + ".log"));
    }
    Ran check() const {
        return run_baton(
            {"relay", "--db", table_.url, "--check", "--config", (folder / "relay.toml").string()});
    }
    bool logged(const std::string& log, const std::string& what) const {
        std::ifstream file(folder / (log + ".log"));
        std::ostringstream text;
        text << file.rdbuf();
        return text.str().find(what) != std::string::npos;
    }
    void wait_for_log(const std::string& log, const std::string& what) const {
        wait_until("the log says: " + what, [&] { return logged(log, what); });
    }

    TemporaryFolder folder;

  private:
    Table& table_;
};

inline void expect_all(const std::vector<int>& got, int upto, const std::set<int>& without = {}) {
    const std::set<int> seen(got.begin(), got.end());
    for (int n = 1; n <= upto; ++n) EXPECT_EQ(seen.contains(n), !without.contains(n)) << n;
}

// Each key's first deliveries must come in order; repeats may only repeat what was there.
inline void expect_key_order(const std::vector<int>& got) {
    std::map<int, int> last;
    std::set<int> seen;
    for (const int n : got) {
        if (!seen.insert(n).second) continue;
        EXPECT_LT(last[n % Table::keys], n) << "key k" << n % Table::keys;
        last[n % Table::keys] = n;
    }
}

}  // namespace baton::test
