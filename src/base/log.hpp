#pragma once
// The daemon's log: one line per change of state, none per event, to stderr, as text or as JSON.

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace spdlog {
class logger;
}

namespace baton {

enum class LogFormat { text, json };
enum class LogLevel { debug, info, warning, error };

class Log {
  public:
    using Field = std::pair<std::string_view, std::string_view>;

    explicit Log(LogFormat format = LogFormat::text, LogLevel least = LogLevel::info);
    ~Log();

    // Write a line; fields that are empty are left out. May be called from any thread.
    void write(LogLevel level, std::string_view message, std::initializer_list<Field> fields = {}) const;
    void info(std::string_view message, std::initializer_list<Field> fields = {}) const {
        write(LogLevel::info, message, fields);
    }
    void warn(std::string_view message, std::initializer_list<Field> fields = {}) const {
        write(LogLevel::warning, message, fields);
    }
    void error(std::string_view message, std::initializer_list<Field> fields = {}) const {
        write(LogLevel::error, message, fields);
    }

    // Make a line, without the time with which a line of text begins.
    static std::string line(LogFormat format, LogLevel level, std::string_view message,
                            std::initializer_list<Field> fields, std::string_view time);

  private:
    LogFormat format_;
    std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace baton
