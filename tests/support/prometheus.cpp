#include "support/prometheus.hpp"

#include <httplib.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace baton::test {

Prometheus::Prometheus(std::map<std::string, std::string> targets, std::filesystem::path rules)
    : Broker("prometheus"), targets_(std::move(targets)), rules_(std::move(rules)) {}

void Prometheus::prepare() {
    std::ofstream file(folder() / "prometheus.yml");
    file << "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ["
         << rules_.string() << "]\nscrape_configs:\n";
    for (const auto& [job, target] : targets_)
        file << "  - job_name: " << job << "\n    static_configs: [{targets: ['" << target << "']}]\n";
}

Command Prometheus::command() {
    Command how;
    how.argv = {"prometheus", "--config.file=" + (folder() / "prometheus.yml").string(),
                "--storage.tsdb.path=" + (folder() / "data").string(),
                "--web.listen-address=127.0.0.1:" + std::to_string(port())};
    return how;
}

bool Prometheus::ready() {
    httplib::Client http("127.0.0.1", port());
    const auto answer = http.Get("/-/ready");
    return answer && answer->status == 200;
}

std::string Prometheus::ask(const std::string& path) const {
    httplib::Client http("127.0.0.1", port());
    const auto answer = http.Get(path);
    if (!answer) throw Error("prometheus does not answer");
    if (answer->status != 200) throw Error("prometheus refuses " + path + ": " + answer->body);
    return answer->body;
}

std::string Prometheus::query(const std::string& expression) const {
    httplib::Client http("127.0.0.1", port());
    const auto answer = http.Post("/api/v1/query", httplib::Params{{"query", expression}});
    if (!answer) throw Error("prometheus does not answer");
    if (answer->status != 200) throw Error("prometheus refuses " + expression + ": " + answer->body);
    return answer->body;
}

std::optional<double> Prometheus::value(const std::string& expression) const {
    const auto samples = nlohmann::json::parse(query(expression)).at("data").at("result");
    if (samples.empty()) return {};
    return std::stod(samples.at(0).at("value").at(1).get<std::string>());
}

}  // namespace baton::test
