#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "brokers/file/lines.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/folder.hpp"

namespace baton::test {

namespace {

using brokers::read_lines;

// Standard output leads into a file between settings() and read_all().
class StdoutFixture : public SinkFixture {
  public:
    StdoutFixture() : terminal_(::dup(STDOUT_FILENO)) {}
    ~StdoutFixture() override { ::close(terminal_); }

    std::string make_destination() override { return (folder_ / std::to_string(++count_)).string(); }
    relay::Settings settings(const std::string& destination) override {
        std::fflush(stdout);
        const int file = ::open(destination.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        ::dup2(file, STDOUT_FILENO);
        ::close(file);
        relay::Settings settings("sink");
        settings.set("type", "stdout");
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        std::fflush(stdout);
        ::dup2(terminal_, STDOUT_FILENO);
        std::vector<std::string> others;
        auto messages = read_lines(destination, &others);
        for (const auto& line : others) std::puts(line.c_str());
        return messages;
    }
    bool has_broker() const override { return false; }
    bool poison(Message&, std::string&) override { return false; }

  private:
    Folder folder_;
    int terminal_;
    int count_ = 0;
};

TEST(StdoutSink, a_line_that_a_full_pipe_cut_is_finished_before_the_next) {
    std::fflush(stdout);
    const int terminal = ::dup(STDOUT_FILENO);
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[1]);
    relay::Settings settings("sink");
    settings.set("type", "stdout");
    const auto sink = brokers::make_sink(settings);
    const std::string body = '"' + std::string(3000, 'b') + '"';
    std::vector<Message> messages(60);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        messages[i].message_id = std::to_string(i);
        messages[i].key = "k";
        messages[i].body = body;
    }
    Driver driver(*sink);
    driver.give(messages);
    std::string all;
    driver.run([&] {
        char block[4096];
        if (const auto got = ::read(ends[0], block, sizeof block); got > 0)
            all.append(block, static_cast<std::size_t>(got));
    });
    ::dup2(terminal, STDOUT_FILENO);
    ::close(terminal);
    char block[65536];
    for (ssize_t got = 0; (got = ::read(ends[0], block, sizeof block)) > 0;)
        all.append(block, static_cast<std::size_t>(got));
    ::close(ends[0]);
    EXPECT_GT(driver.retries(), 0U);
    Folder folder;
    const auto path = folder / "lines";
    if (std::FILE* file = std::fopen(path.c_str(), "w")) {
        std::fwrite(all.data(), 1, all.size(), file);
        std::fclose(file);
    }
    std::set<std::string> ids;
    for (const auto& message : read_lines(path)) {
        ids.insert(message.id);
        EXPECT_EQ(message.body, body);
    }
    EXPECT_EQ(ids.size(), 60U);
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Stdout, SinkConformance, StdoutFixture);

}  // namespace baton::test
