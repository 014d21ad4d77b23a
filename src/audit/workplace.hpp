#pragma once
// What an audit needs for itself: a name, a folder, a file for the relay, and a tidy end.

#include <filesystem>
#include <functional>
#include <string>

#include "base/file.hpp"

namespace baton::audit {

// "baton_audit_" and something random.
std::string unique_name();

// A folder that only we may enter. It is removed at the end unless it is to be kept.
class Workplace {
  public:
    explicit Workplace(bool keep);
    ~Workplace();
    Workplace(const Workplace&) = delete;
    Workplace& operator=(const Workplace&) = delete;
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    bool keep_;
};

// Does something at the end, whatever happens. When this fails, stderr says so, and nothing else changes.
class Undo {
  public:
    explicit Undo(std::function<void()> action, bool leave = false)
        : action_(leave ? nullptr : std::move(action)) {}
    ~Undo();
    Undo(const Undo&) = delete;
    Undo& operator=(const Undo&) = delete;

  private:
    std::function<void()> action_;
};

}  // namespace baton::audit
