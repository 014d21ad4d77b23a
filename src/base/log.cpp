#include "base/log.hpp"

#include <fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace baton {

namespace {

const char* name_of(LogLevel level) {
    constexpr const char* names[] = {"debug", "info", "warning", "error"};
    return names[static_cast<std::size_t>(level)];
}

// Escape what would end a JSON string or a line.
void append_quoted(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    out += '"';
}

spdlog::level::level_enum level_of(LogLevel level) {
    constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                    spdlog::level::warn, spdlog::level::err};
    return levels[static_cast<std::size_t>(level)];
}

}  // namespace

Log::Log(LogFormat format, LogLevel least)
    : format_(format),
      logger_(std::make_shared<spdlog::logger>("baton", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
    logger_->set_pattern("%v");
    logger_->set_level(level_of(least));
    logger_->flush_on(spdlog::level::debug);
}

Log::~Log() = default;

std::string Log::line(LogFormat format, LogLevel level, std::string_view message,
                      std::initializer_list<Field> fields, std::string_view time) {
    std::string out;
    if (format == LogFormat::json) {
        out = fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"message\":", time, name_of(level));
        append_quoted(out, message);
        for (const auto& [name, value] : fields) {
            if (value.empty()) continue;
            out += ',';
            append_quoted(out, name);
            out += ':';
            append_quoted(out, value);
        }
        return out + "}";
    }
    out = fmt::format("{} {:<7} {}", time, name_of(level), message);
    for (const auto& [name, value] : fields) {
        if (value.empty()) continue;
        out += fmt::format(" {}=", name);
        if (value.find_first_of(" \"\n\\=") == std::string_view::npos) {
            out += value;
        } else {
            append_quoted(out, value);
        }
    }
    return out;
}

void Log::write(LogLevel level, std::string_view message, std::initializer_list<Field> fields) const {
    const auto now =
        std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
    const auto millis = now.time_since_epoch().count() % 1000;
    const auto time = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                                  fmt::gmtime(std::chrono::system_clock::to_time_t(now)), millis);
    logger_->log(level_of(level), line(format_, level, message, fields, time));
}

}  // namespace baton
