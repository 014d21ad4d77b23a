#pragma once
// An outbox with orders, and relays that carry them.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/process.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

inline std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

class Relaying : public testing::TestWithParam<Form> {
  protected:
    Relaying() { admin.exec("select baton.create_outbox('orders')"); }

    // A pipeline to a file; an HTTP sink that several relays may use at once would need a server of its own.
    void write_config(const std::string& sink, const std::string& more = {}, const std::string& name = "one",
                      const std::string& lease = "2s") {
        std::ofstream(folder / (name + ".toml"))
            << more << "[[pipeline]]\nname = \"out\"\n[pipeline.source]\noutbox = \"orders\"\nlease = \""
            << lease << "\"\n[pipeline.sink]\n"
            << sink;
    }
    std::string to_file(const std::string& name) const {
        return "type = \"file\"\npath = \"" + (folder / name).string() + "\"\n";
    }
    std::string to_inbox() const {
        return "type = \"postgres\"\nurl = \"" + url + "\"\ninbox = \"arrivals\"\n";
    }

    Process start(const std::string& log, const std::vector<std::string>& more = {}) {
        std::vector<std::string> words{"relay", "--db", url, "--config", (folder / (log + ".toml")).string(),
                                       "--log", "json"};
        words.insert(words.end(), more.begin(), more.end());
        return start_baton(words, folder / (log + ".out"), folder / (log + ".log"));
    }
    bool logged(const std::string& log, const std::string& what) const {
        return text_of(folder / (log + ".log")).find(what) != std::string::npos;
    }
    void wait_for_log(const std::string& log, const std::string& what) const {
        wait_until("the log " + log + " says: " + what, [&] { return logged(log, what); });
    }

    void publish(int from, int upto) {
        for (int n = from; n <= upto; ++n)
            admin.query(
                "select baton.publish('orders', 'order.changed', jsonb_build_object('n', $2::int), "
                "aggregate_id => $1)",
                {"k" + std::to_string(n % 4), n});
    }
    std::vector<int> numbers(const std::string& name) const {
        std::vector<int> all;
        std::ifstream file(folder / name);
        for (std::string line; std::getline(file, line) && !file.eof();)
            all.push_back(nlohmann::json::parse(line).at("payload").at("n"));
        return all;
    }
    void wait_for_numbers(const std::string& name, int upto) const {
        wait_until("events up to " + std::to_string(upto) + " are in " + name, [&] {
            const auto all = numbers(name);
            return std::set<int>(all.begin(), all.end()).size() == static_cast<std::size_t>(upto);
        });
    }
    // Each key's first deliveries must come in order; repeats may only repeat what was there.
    static void expect_key_order(const std::vector<int>& all) {
        std::map<int, int> last;
        std::set<int> seen;
        for (const int n : all) {
            if (!seen.insert(n).second) continue;
            EXPECT_LT(last[n % 4], n) << "key k" << n % 4;
            last[n % 4] = n;
        }
    }
    std::string owner() {
        return admin.value("select coalesce(owner, '') from baton_internal.group_positions");
    }

    TemporaryFolder folder;
    std::string url = shared_cluster(GetParam()).fresh_database();
    Connection admin{url};
};

}  // namespace baton::test
