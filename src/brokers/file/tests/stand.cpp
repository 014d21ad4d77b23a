#include <optional>

#include "chaos/stand_parts.hpp"
#include "support/broker.hpp"
#include "support/small_disk.hpp"

namespace baton::test {

using namespace std::chrono_literals;
using audit::Fault;
using audit::Relays;

namespace {

constexpr int disk_megabytes = 64;

// A file on a small file system, where one can be mounted.
class FileStand final : public Stand {
  public:
    FileStand() {
        try {
            disk_.emplace(disk_megabytes);
        } catch (const Unavailable& unavailable) {
            announce_skip(unavailable.what());
        }
    }
    Values sink() override { return {{"type", "file"}}; }
    Values reader() override {
        if (!disk_) return {};
        return {{"folder", disk_->path().string()}};
    }
    bool has_server() const override { return false; }
    std::vector<Fault> own_faults(Way) override {
        if (!disk_) return {};
        return {{"the disk full for 4 s", [this](Relays&) {
                     disk_->fill();
                     std::this_thread::sleep_for(4s);
                     disk_->relieve();
                 }}};
    }

  private:
    std::optional<SmallDisk> disk_;
};

}  // namespace

void add_file_stands(StandMakers& makers) {
    makers["file"] = make<FileStand>;
}

}  // namespace baton::test
