#include "brokers/file/audit_place.hpp"

#include <fstream>
#include <thread>

#include "brokers/file/lines.hpp"

namespace baton::brokers {

namespace {

class FilePlace final : public AuditPlace {
  public:
    explicit FilePlace(const PlaceRequest& request)
        : file_(std::filesystem::path(request.reader.text("folder", request.folder.string())) /
                (request.name + ".jsonl")) {}

    void create() override {}
    Values sink_values() override { return {{"path", file_.string()}}; }
    std::vector<Received> follow(std::chrono::milliseconds patience) override {
        std::vector<Received> news = read_on();
        if (news.empty()) std::this_thread::sleep_for(std::min(patience, std::chrono::milliseconds(2)));
        return news;
    }
    void forget() override {}
    std::vector<Received> read_all() override { return read_lines(file_); }
    void read_ids(const std::function<void(std::string_view)>& take) override { read_line_ids(file_, take); }
    void remove() override { std::filesystem::remove(file_); }

  private:
    // Whole lines only; one that was cut off by a crash is removed by the next relay, so start over behind
    // it.
    std::vector<Received> read_on() {
        std::vector<Received> news;
        std::ifstream file(file_, std::ios::binary);
        file.seekg(offset_);
        file.read(block_.data(), static_cast<std::streamsize>(block_.size()));
        const std::string_view block(block_.data(), static_cast<std::size_t>(file.gcount()));
        for (std::size_t begin = 0, end = 0; (end = block.find('\n', begin)) != std::string_view::npos;
             begin = end + 1) {
            const auto line = block.substr(begin, end - begin);
            if (line.starts_with("{\"id\":\"") && line.ends_with("}"))
                news.push_back({std::string(line.substr(7, line.find('"', 7) - 7)), {}, {}, {}});
            offset_ += static_cast<std::streamoff>(line.size()) + 1;
        }
        if (news.empty() && block.size() == block_.size()) block_.resize(2 * block_.size());  // a long line
        return news;
    }

    std::filesystem::path file_;
    std::streamoff offset_ = 0;
    std::string block_ = std::string(std::size_t{1} << 20, '\0');
};

}  // namespace

std::unique_ptr<AuditPlace> make_file_place(const PlaceRequest& request) {
    return std::make_unique<FilePlace>(request);
}

}  // namespace baton::brokers
