#include "player.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/process.hpp"
#include "support/cluster.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using nlohmann::json;
namespace fs = std::filesystem;

std::string play(const std::string& scenario, const std::string& url, const fs::path& folder,
                 const AnswerTo& answer) {
    const fs::path ask = folder / "ask", answered = folder / "answer", log = folder / (scenario + ".log");
    const fs::path output = build_folder() / "browser";
    fs::create_directories(output);
    Process browser({.argv = {"node", BATON_SOURCE "/tests/browser/play.mjs", scenario, url, folder.string(),
                              output.string()},
                     .output = log,
                     .dies_with_us = true});
    std::optional<int> code;
    while (!(code = browser.wait(20ms))) {
        if (!fs::exists(ask)) continue;
        json reply;
        try {
            const auto asked = json::parse(read_text(ask));
            reply["answer"] = answer(asked.at("what"), asked.at("words"));
        } catch (const std::exception& error) {
            reply["error"] = error.what();
        }
        fs::remove(ask);
        std::ofstream(folder / "answer.new") << reply.dump();
        fs::rename(folder / "answer.new", answered);
    }
    return *code == 0 ? "" : read_text(log);
}

}  // namespace baton::test
