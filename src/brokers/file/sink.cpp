#include "brokers/file/sink.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <regex>

#include "brokers/lease_is_over.hpp"
#include "wire/json_lines.hpp"

namespace fs = std::filesystem;

namespace baton::brokers {

namespace {

using relay::Verdict;

struct Options {
    fs::path path;
    bool sync = true;
    std::uint64_t rotate_size = 0;
    std::chrono::milliseconds rotate_after{0};
    std::size_t keep = 0;
};

[[noreturn]] void fail(const std::string& what, const fs::path& path) {
    throw Error("cannot " + what + " " + path.string() + ": " + std::strerror(errno));
}

// Read "500MB" or a number of bytes.
std::uint64_t read_size(const relay::Settings& settings, const std::string& key) {
    if (!settings.has(key)) return 0;
    std::uint64_t value = 0;
    std::string text;
    try {
        text = settings.text(key);
    } catch (const relay::SettingsError&) {
        text = std::to_string(settings.number(key, 0));
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string unit(end, static_cast<const char*>(text.data() + text.size()));
    constexpr std::array<std::pair<std::string_view, std::uint64_t>, 5> units{
        {{"", 1}, {"B", 1}, {"kB", 1000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}}};
    for (const auto& [name, factor] : units)
        if (error == std::errc{} && unit == name && value > 0) return value * factor;
    settings.refuse(key, "is no size", "write a number of bytes, 500MB or 2GB");
}

// Make the names in the file's folder durable.
void flush_folder(const fs::path& file) {
    const fs::path folder = file.parent_path().empty() ? "." : file.parent_path();
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail("open", folder);
    const bool flushed = ::fsync(fd) == 0;
    ::close(fd);
    if (!flushed) fail("flush", folder);
}

// The open file with its lock, its size and its age.
class LogFile {
  public:
    explicit LogFile(const Options& options) : options_(options) {
        fd_ = ::open(options_.path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        if (fd_ < 0) fail("open", options_.path);
        if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
            ::close(fd_);
            throw Error("another process writes to " + options_.path.string());
        }
        struct stat status {};
        ::fstat(fd_, &status);
        size_ = static_cast<std::uint64_t>(status.st_size);
        try {
            if (!in_place()) throw Error(options_.path.string() + " was moved while it was opened");
            repair();
            if (options_.sync) flush_folder(options_.path);  // it may be new there
        } catch (...) {
            ::close(fd_);
            throw;
        }
    }
    ~LogFile() { ::close(fd_); }
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;

    // Append all of it or, throwing, nothing.
    void append(std::string_view bytes) {
        std::uint64_t written = 0;
        while (written < bytes.size()) {
            const auto count = ::write(fd_, bytes.data() + written, bytes.size() - written);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) {
                const int error = errno;
                truncate(size_);
                errno = error;
                fail("write to", options_.path);
            }
            written += static_cast<std::uint64_t>(count);
        }
        size_ += written;
    }

    void sync() const {
        if (::fdatasync(fd_) != 0) fail("flush", options_.path);
    }

    // False when the file was deleted: what was written to it is nowhere.
    bool exists() const {
        struct stat own {};
        return ::fstat(fd_, &own) == 0 && own.st_nlink > 0;
    }
    // False when somebody has moved or deleted it: the path names another file, or none.
    bool in_place() const {
        struct stat own {};
        struct stat named {};
        return ::fstat(fd_, &own) == 0 && ::stat(options_.path.c_str(), &named) == 0 &&
               own.st_dev == named.st_dev && own.st_ino == named.st_ino;
    }

    bool full() const {
        if (size_ == 0) return false;
        return (options_.rotate_size > 0 && size_ >= options_.rotate_size) ||
               (options_.rotate_after.count() > 0 && Clock::now() - opened_ >= options_.rotate_after);
    }

  private:
    using Clock = std::chrono::steady_clock;

    void truncate(std::uint64_t size) const {
        if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("shorten", options_.path);
    }

    // Cut off a last line that has no end: a crash interrupted it, and it will come again.
    void repair() {
        std::array<char, 4096> block{};
        std::uint64_t end = size_;
        while (end > 0) {
            const std::uint64_t begin = end > block.size() ? end - block.size() : 0;
            const auto got = ::pread(fd_, block.data(), end - begin, static_cast<off_t>(begin));
            if (got < 0) fail("read", options_.path);
            const std::string_view text(block.data(), static_cast<std::size_t>(got));
            if (const auto found = text.rfind('\n'); found != std::string_view::npos) {
                end = begin + found + 1;
                break;
            }
            end = begin;
        }
        if (end == size_) return;
        truncate(end);
        size_ = end;
    }

    Options options_;
    int fd_ = -1;
    std::uint64_t size_ = 0;
    Clock::time_point opened_ = Clock::now();
};

class FileSink final : public relay::Sink {
  public:
    explicit FileSink(Options options) : options_(std::move(options)) {}

    relay::SinkTraits traits() const override { return {.keeps_order_after_failure = true}; }

    void check() override {
        if (!file_) file_ = std::make_unique<LogFile>(options_);
    }

    void send(std::span<const Message> messages) override {
        for (const auto& message : messages) wire::append_json_line_of(buffer_, message);
        // After a failure nothing is written until that is known: no later message may overtake. The file
        // stays open: what was written to it before is still to be flushed.
        if (error_.empty())
            error_ = attempt([this] {
                if (!may_send()) throw Error(lease_is_over);
                // A file with lines that are not reported yet stays until they are.
                if (file_ && written_.empty() && !file_->in_place()) file_.reset();
                if (!file_) file_ = std::make_unique<LogFile>(options_);
                file_->append(buffer_);
            });
        buffer_.clear();
        auto& tickets = error_.empty() ? written_ : failed_;
        for (const auto& message : messages) tickets.push_back(message.ticket);
    }

    void collect(std::vector<relay::Delivery>& deliveries, relay::milliseconds) override {
        std::string why;  // what was written is not safe
        if (!written_.empty()) {
            why = attempt([this] {
                if (options_.sync) file_->sync();
                if (!file_->exists()) throw Error(options_.path.string() + " was deleted");
            });
            // What was not flushed may be in the file or not: it is sent again.
            const auto verdict = why.empty() ? Verdict::delivered : Verdict::retry;
            for (const auto ticket : written_) deliveries.push_back({ticket, verdict, why, {}});
        }
        for (const auto ticket : failed_) deliveries.push_back({ticket, Verdict::retry, error_, {}});
        // After an error the file is opened anew; a full one is put aside, now or next time.
        if (!why.empty() || !error_.empty() || !attempt([this] {
                                                    if (file_ && file_->full() && file_->in_place()) rotate();
                                                }).empty())
            file_.reset();
        written_.clear();
        failed_.clear();
        error_.clear();
    }

  private:
    // Do it; returns what went wrong, or nothing.
    template <class Step>
    static std::string attempt(const Step& step) {
        try {
            step();
            return {};
        } catch (const std::exception& error) {
            return error.what();
        }
    }

    // Give the full file its final name and begin a new one.
    void rotate() {
        if (options_.sync) file_->sync();
        const std::time_t now = std::time(nullptr);
        std::tm utc{};
        ::gmtime_r(&now, &utc);
        std::array<char, 32> stamp{};
        std::strftime(stamp.data(), stamp.size(), "%Y%m%dT%H%M%SZ", &utc);
        const auto [time, number] = next_name(stamp.data());
        const std::string suffix = number == 1 ? "" : "-" + std::to_string(number);
        const fs::path target = options_.path.parent_path() / (options_.path.stem().string() + "-" + time +
                                                               suffix + options_.path.extension().string());
        if (::rename(options_.path.c_str(), target.c_str()) != 0) fail("rename", options_.path);
        file_ = std::make_unique<LogFile>(options_);
        forget_old();
    }

    // A full file of ours is called NAME-20260131T235959Z[-N].EXT: the time it was put aside, and which of
    // that second. Nothing else in the folder is touched.
    std::optional<std::pair<std::string, int>> put_aside_as(const fs::path& file) const {
        const std::string stem = file.stem().string();
        const std::string own = options_.path.stem().string() + "-";
        if (file.extension() != options_.path.extension() || !stem.starts_with(own)) return std::nullopt;
        const std::string rest = stem.substr(own.size());
        static const std::regex form("([0-9]{8}T[0-9]{6}Z)(-([0-9]{1,6}))?");
        std::smatch parts;
        if (!std::regex_match(rest, parts, form)) return std::nullopt;
        return std::pair(parts[1].str(), parts[3].matched ? std::stoi(parts[3].str()) : 1);
    }

    using FullFile = std::pair<std::pair<std::string, int>, fs::path>;  // time, number, where it is

    // The full files, oldest first.
    std::vector<FullFile> full_files() const {
        const fs::path folder = options_.path.parent_path().empty() ? "." : options_.path.parent_path();
        std::vector<FullFile> full;
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder, ignored))
            if (auto age = put_aside_as(entry.path())) full.emplace_back(std::move(*age), entry.path());
        std::sort(full.begin(), full.end());
        return full;
    }

    // Time and number of the next full file: above all others, also those that are deleted by now, and those
    // from before a clock was set back. The order of the names is that of the files, and the oldest are
    // deleted by it.
    std::pair<std::string, int> next_name(const std::string& now) {
        if (const auto full = full_files(); !full.empty()) last_ = std::max(last_, full.back().first);
        last_ = last_.first < now ? std::pair(now, 1) : std::pair(last_.first, last_.second + 1);
        return last_;
    }

    // Delete the oldest full files that are too many. One that cannot be deleted is tried again next time.
    void forget_old() const {
        if (options_.keep == 0) return;
        const auto full = full_files();
        std::error_code ignored;
        for (std::size_t i = 0; i + options_.keep < full.size(); ++i) fs::remove(full[i].second, ignored);
    }

    std::pair<std::string, int> last_;  // time and number of the last full file
    Options options_;
    std::unique_ptr<LogFile> file_;
    std::string buffer_;
    std::vector<std::uint64_t> written_;  // in the file, not yet flushed
    std::vector<std::uint64_t> failed_;
    std::string error_;
};

}  // namespace

std::unique_ptr<relay::Sink> make_file_sink(const relay::Settings& settings) {
    Options options;
    options.path = settings.text("path");
    const std::string policy = settings.text("fsync", "batch");
    if (policy != "batch" && policy != "never")
        settings.refuse("fsync", "is \"" + policy + "\"", "write \"batch\" or \"never\"");
    options.sync = policy == "batch";
    options.rotate_size = read_size(settings, "rotate_size");
    options.rotate_after = settings.duration("rotate_after", std::chrono::milliseconds(0));
    const auto keep = settings.number("keep", 0);
    if (keep < 0) settings.refuse("keep", "must be 0 (all full files stay) or more");
    if (keep > 0 && options.rotate_size == 0 && options.rotate_after.count() == 0)
        settings.refuse("keep", "means nothing here", "set rotate_size or rotate_after too");
    options.keep = static_cast<std::size_t>(keep);
    return std::make_unique<FileSink>(std::move(options));
}

}  // namespace baton::brokers
