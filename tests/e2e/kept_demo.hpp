#pragma once
// The demo that stays, with its outage and its dead letter.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/process.hpp"
#include "baton/error.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace baton::test {

// The demo with --keep, and somebody who presses Enter.
class KeptDemo {
  public:
    KeptDemo(const TemporaryFolder& folder, const std::vector<std::string>& words)
        : output_(folder / "output"), input_((folder / "input").string()) {
        if (::mkfifo(input_.c_str(), 0600) != 0) throw Error("cannot make a pipe");
        keyboard_ = ::open(input_.c_str(), O_RDWR | O_CLOEXEC);
        std::vector<std::string> argv{
            "sh", "-c", "exec \"$@\" <" + input_, "sh", program_file().string(), "demo", "--keep"};
        argv.insert(argv.end(), words.begin(), words.end());
        process_ = std::make_unique<Process>(Command{.argv = argv, .output = output_});
        wait_until("the demo stays", [this] {
            if (!process_->running()) throw Error(said());
            return said().find("Ctrl-C ends") != std::string::npos;
        });
    }
    ~KeptDemo() { ::close(keyboard_); }

    std::string said() const { return read_text(output_); }
    // The link that it printed.
    std::string link() const {
        const std::string all = said();
        std::smatch found;
        if (!std::regex_search(all, found, std::regex("http://127.0.0.1:[0-9]+/#token=[0-9a-f]+")))
            throw Error("there is no link: " + all);
        return found[0];
    }
    void press_enter() const { EXPECT_EQ(::write(keyboard_, "\n", 1), 1); }
    std::optional<int> interrupt() {
        process_->signal(SIGINT);
        return process_->wait(std::chrono::seconds(60));
    }

  private:
    std::filesystem::path output_;
    std::string input_;
    int keyboard_;
    std::unique_ptr<Process> process_;
};

}  // namespace baton::test
