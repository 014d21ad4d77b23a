#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>

#include "base/file.hpp"
#include "brokers/file/lines.hpp"
#include "brokers/registry.hpp"
#include "conformance/driver.hpp"
#include "conformance/sink_conformance.hpp"
#include "support/cluster.hpp"
#include "support/folder.hpp"
#include "support/small_disk.hpp"

namespace baton::test {

namespace {

using brokers::read_lines;
namespace fs = std::filesystem;

class FileFixture : public SinkFixture {
  public:
    std::string make_destination() override {
        return (folder_ / ("out" + std::to_string(++count_) + ".jsonl")).string();
    }
    relay::Settings settings(const std::string& destination) override {
        relay::Settings settings("sink");
        settings.set("type", "file");
        settings.set("path", destination);
        return settings;
    }
    std::vector<Received> read_all(const std::string& destination) override {
        return read_lines(destination);
    }
    bool has_broker() const override { return false; }
    bool poison(Message&, std::string&) override { return false; }

  protected:
    Folder folder_;
    int count_ = 0;
};

std::vector<Message> make_messages(int from, int count) {
    std::vector<Message> messages;
    for (int i = from; i < from + count; ++i) {
        Message& message = messages.emplace_back();
        message.message_id = "m" + std::to_string(i);
        message.key = "k";
        message.body = R"({"some":"body"})";
        message.content_type = "application/json";
    }
    return messages;
}

void deliver(const relay::Settings& settings, int from, int count) {
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink, 4);
    driver.give(make_messages(from, count));
    driver.run();
}

TEST(FileSink, a_line_cut_off_by_a_crash_is_removed_when_the_file_is_opened_again) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    deliver(fixture.settings(path), 0, 3);
    const auto whole = fs::file_size(path);
    std::ofstream(path, std::ios::app) << R"({"id":"m3","destination":"x","he)" << std::string(10000, 'a');
    deliver(fixture.settings(path), 3, 2);
    EXPECT_GT(fs::file_size(path), whole);
    const auto messages = fixture.read_all(path);
    ASSERT_EQ(messages.size(), 5U);
    EXPECT_EQ(messages[3].id, "m3");
}

TEST(FileSink, a_file_that_is_one_broken_line_begins_anew) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    std::ofstream(path) << std::string(5000, '{');
    deliver(fixture.settings(path), 0, 1);
    EXPECT_EQ(fixture.read_all(path).size(), 1U);
}

TEST(FileSink, full_files_are_put_aside_and_nothing_is_missing) {
    FileFixture fixture;
    const fs::path path = fixture.make_destination();
    auto settings = fixture.settings(path);
    settings.set("rotate_size", "1kB");
    deliver(settings, 0, 200);
    std::map<std::string, int> ids;
    int files = 0;
    for (const auto& entry : fs::directory_iterator(path.parent_path())) {
        ++files;
        EXPECT_LT(entry.file_size(), 2000U) << entry.path();
        for (const auto& message : read_lines(entry.path())) ++ids[message.id];
    }
    EXPECT_GT(files, 5);
    EXPECT_EQ(ids.size(), 200U);
    for (const auto& [id, count] : ids) EXPECT_EQ(count, 1) << id;
}

// The files beside this one, oldest first as their names say.
std::vector<fs::path> put_aside(const fs::path& path) {
    std::vector<fs::path> full;
    for (const auto& entry : fs::directory_iterator(path.parent_path()))
        if (entry.path() != path && entry.path().filename().string().starts_with(path.stem().string() + "-"))
            full.push_back(entry.path());
    return full;
}

TEST(FileSink, only_as_many_full_files_stay_as_keep_says_and_strangers_are_left_alone) {
    FileFixture fixture;
    const fs::path path = fixture.make_destination();
    const fs::path stranger = path.parent_path() / (path.stem().string() + "-notes.jsonl");
    std::ofstream(stranger) << "mine";
    auto settings = fixture.settings(path);
    settings.set("rotate_size", "1kB");
    settings.set("keep", std::int64_t{3});
    deliver(settings, 0, 400);
    EXPECT_TRUE(fs::exists(stranger));
    const auto full = put_aside(path);
    EXPECT_EQ(full.size(), 4U) << "three and the stranger";
    std::set<std::string> ids;
    for (const auto& file : full)
        if (file != stranger)
            for (const auto& message : read_lines(file)) ids.insert(message.id);
    for (const auto& message : read_lines(path)) ids.insert(message.id);
    EXPECT_TRUE(ids.contains("m399")) << "the newest must be there";
    EXPECT_FALSE(ids.contains("m0")) << "the oldest must be gone";
    for (int i = 400 - static_cast<int>(ids.size()); i < 400; ++i)
        EXPECT_TRUE(ids.contains("m" + std::to_string(i))) << "m" << i << " is missing in the middle";
}

TEST(FileSink, a_clock_that_was_set_back_does_not_make_the_newest_file_the_oldest) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    const std::string ahead = path.substr(0, path.size() - 6) + "-20990101T000000Z.jsonl";
    std::ofstream(ahead) << "{}\n";
    auto settings = fixture.settings(path);
    settings.set("rotate_size", 100);
    settings.set("keep", 1);
    deliver(settings, 0, 1);
    EXPECT_FALSE(fs::exists(ahead)) << "it is the oldest";
    std::string kept;
    for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path()))
        kept += read_text(entry.path());
    EXPECT_NE(kept.find("m0"), std::string::npos) << "what was written last stays";
}

TEST(FileSink, an_old_file_is_put_aside_although_it_is_small) {
    FileFixture fixture;
    const fs::path path = fixture.make_destination();
    auto settings = fixture.settings(path);
    settings.set("rotate_after", "20ms");
    const auto sink = brokers::make_sink(settings);
    int sent = 0;
    wait_until("a file is put aside", [&] {
        Driver driver(*sink, 4);
        driver.give(make_messages(sent++, 1));
        driver.run();
        return put_aside(path).size() >= 2;
    });
    std::set<std::string> ids;
    for (const auto& message : read_lines(path)) ids.insert(message.id);
    for (const auto& file : put_aside(path))
        for (const auto& message : read_lines(file)) ids.insert(message.id);
    EXPECT_EQ(ids.size(), static_cast<std::size_t>(sent));
}

TEST(FileSink, without_fsync_everything_is_in_the_file_all_the_same) {
    FileFixture fixture;
    const fs::path path = fixture.make_destination();
    auto settings = fixture.settings(path);
    settings.set("fsync", "never");
    settings.set("rotate_size", "2kB");
    deliver(settings, 0, 100);
    std::size_t count = read_lines(path).size();
    for (const auto& file : put_aside(path)) count += read_lines(file).size();
    EXPECT_EQ(count, 100U);
}

TEST(FileSink, a_file_that_another_process_writes_is_left_alone) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    const int other = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    const auto sink = brokers::make_sink(fixture.settings(path));
    EXPECT_THROW(sink->check(), Error);
    Driver driver(*sink);
    driver.give(make_messages(0, 5));
    driver.run_until([&] { return driver.retries() >= 10; });
    EXPECT_EQ(driver.delivered(), 0U);
    EXPECT_NE(driver.last_error().find("another process"), std::string::npos) << driver.last_error();
    ::close(other);
    driver.run();
    EXPECT_EQ(fixture.read_all(path).size(), 5U);
}

// Null where mounting is not allowed; the reason is announced.
std::unique_ptr<SmallDisk> mount_small_disk() {
    try {
        return std::make_unique<SmallDisk>(1);
    } catch (const Unavailable& unavailable) {
        announce_skip(unavailable.what());
        return nullptr;
    }
}

TEST(FileSink, what_was_written_to_a_file_that_is_deleted_meanwhile_comes_again) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    const auto sink = brokers::make_sink(fixture.settings(path));
    Driver driver(*sink, 4);
    driver.give(make_messages(0, 3));
    driver.run();
    fs::remove(path);
    driver.give(make_messages(3, 2));
    driver.run();
    ASSERT_EQ(fixture.read_all(path).size(), 2U) << "those after the deletion have a file";
    driver.give(make_messages(5, 2));
    driver.fill();  // written, not reported
    fs::remove(path);
    driver.run();
    const auto messages = fixture.read_all(path);
    ASSERT_EQ(messages.size(), 2U) << "what was reported is in a file that has a name";
    EXPECT_EQ(messages[0].id, "m5");
}

TEST(FileSink, a_file_that_is_moved_away_keeps_what_it_has_and_a_new_one_begins) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    const auto sink = brokers::make_sink(fixture.settings(path));
    Driver driver(*sink, 4);
    driver.give(make_messages(0, 3));
    driver.run();
    fs::rename(path, path + ".1");
    driver.give(make_messages(3, 2));
    driver.run();
    EXPECT_EQ(fixture.read_all(path + ".1").size(), 3U);
    EXPECT_EQ(fixture.read_all(path).size(), 2U);
    // another file in its place
    fs::rename(path, path + ".2");
    std::ofstream(path) << "";
    driver.give(make_messages(5, 2));
    driver.run();
    EXPECT_EQ(fixture.read_all(path + ".2").size(), 2U);
    EXPECT_EQ(fixture.read_all(path).size(), 2U);
}

TEST(FileSink, a_file_that_is_full_when_it_is_deleted_takes_no_stranger_with_it) {
    FileFixture fixture;
    const std::string path = fixture.make_destination();
    auto settings = fixture.settings(path);
    settings.set("rotate_size", 100);
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink, 4);
    driver.give(make_messages(0, 1));
    driver.fill();
    fs::remove(path);
    std::ofstream(path) << "{\"id\":\"stranger\"}\n";
    driver.run();
    std::string text;  // of the file, or of the full one that it has become meanwhile
    for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path()))
        text += read_text(entry.path());
    EXPECT_NE(text.find("stranger"), std::string::npos) << text;
    EXPECT_NE(text.find("m0"), std::string::npos) << text;
}

TEST(FileSink, a_full_disk_is_waited_for_and_leaves_whole_lines_once_each) {
    const auto disk = mount_small_disk();
    if (!disk) GTEST_SKIP() << "no small file system can be mounted";
    std::ofstream(*disk / "ballast") << std::string(500'000, 'b');
    const fs::path path = *disk / "out.jsonl";
    relay::Settings settings("sink");
    settings.set("type", "file");
    settings.set("path", path.string());
    const std::string body = "\"" + std::string(4000, 'x') + "\"";
    auto messages = make_messages(0, 200);
    for (auto& message : messages) message.body = body;
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink);
    driver.give(messages);
    driver.run_until([&] { return driver.retries() >= 600; });
    EXPECT_NE(driver.last_error().find("No space left"), std::string::npos) << driver.last_error();
    EXPECT_GT(driver.delivered(), 50U) << "what fitted was taken";
    EXPECT_LT(driver.delivered(), 200U);
    EXPECT_EQ(read_lines(path).size(), driver.delivered()) << "only whole lines, and only what was reported";
    fs::remove(*disk / "ballast");
    driver.run();
    const auto lines = read_lines(path);
    ASSERT_EQ(lines.size(), 200U);
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].id, "m" + std::to_string(i));
}

TEST(FileSink, a_disk_that_is_full_when_a_file_is_put_aside_costs_nothing_that_was_written) {
    const auto disk = mount_small_disk();
    if (!disk) GTEST_SKIP() << "no small file system can be mounted";
    relay::Settings settings("sink");
    settings.set("type", "file");
    settings.set("path", (*disk / "out.jsonl").string());
    settings.set("rotate_size", "50kB");
    const std::string body = "\"" + std::string(4000, 'x') + "\"";
    auto messages = make_messages(0, 400);
    for (auto& message : messages) message.body = body;
    const auto sink = brokers::make_sink(settings);
    Driver driver(*sink, 20);
    driver.give(messages);
    driver.run_until([&] { return driver.retries() >= 100; });
    EXPECT_LT(driver.delivered(), 400U);
    std::map<std::string, int> ids;
    const auto take_away = [&](const fs::path& file) {
        for (const auto& message : read_lines(file)) ++ids[message.id];
        fs::remove(file);
    };
    driver.run([&] {
        for (const auto& file : put_aside(*disk / "out.jsonl")) take_away(file);
    });
    for (const auto& file : put_aside(*disk / "out.jsonl")) take_away(file);
    take_away(*disk / "out.jsonl");
    EXPECT_EQ(ids.size(), 400U);
    for (const auto& [id, count] : ids) EXPECT_EQ(count, 1) << id;
}

TEST(FileSink, bad_settings_are_refused_by_name) {
    FileFixture fixture;
    for (const auto& [key, value] : std::map<std::string, std::string>{{"fsync", "sometimes"},
                                                                       {"rotate_size", "many"},
                                                                       {"keep", "few"},
                                                                       {"rotate_after", "soon"},
                                                                       {"pth", "x"}}) {
        auto settings = fixture.settings("/tmp/unused.jsonl");
        settings.set(key, value);
        try {
            brokers::make_sink(settings);
            ADD_FAILURE() << key << " was taken";
        } catch (const relay::SettingsError& error) {
            EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
        }
    }
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(File, SinkConformance, FileFixture);

}  // namespace baton::test
