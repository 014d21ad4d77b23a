#include "audit/workplace.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "audit/auditor.hpp"
#include "baton/error.hpp"
#include "event/json.hpp"

namespace baton::audit {

std::string unique_name() {
    return fmt::format("baton_audit_{:08x}", std::random_device{}());
}

Workplace::Workplace(bool keep) : keep_(keep) {
    std::string pattern = (std::filesystem::temp_directory_path() / "baton-audit-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
        throw Error("cannot make a folder below " + std::filesystem::temp_directory_path().string());
    path_ = pattern;
}

Workplace::~Workplace() {
    std::error_code ignored;
    if (!keep_) std::filesystem::remove_all(path_, ignored);
}

Undo::~Undo() {
    try {
        if (action_) action_();
    } catch (const std::exception& error) {
        fmt::print(stderr, "baton: could not tidy up: {}\n", error.what());
    }
}

namespace {

// TOML's basic strings are written like JSON's.
std::string quoted(const std::string& text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

struct Writer {
    std::string operator()(const std::string& text) const { return quoted(text); }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return fmt::format("{:.6f}", number); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(const std::vector<std::string>& list) const {
        std::string out = "[";
        for (const auto& item : list) out += (out.size() > 1 ? ", " : "") + quoted(item);
        return out + "]";
    }
};

}  // namespace

std::string write_pipeline(const brokers::AuditPlace::Values& values) {
    std::string text = "[[pipeline]]\n";
    for (const auto& [key, value] : values) text += quoted(key) + " = " + std::visit(Writer{}, value) + "\n";
    return text;
}

relay::Settings make_settings(const std::string& name, const brokers::AuditPlace::Values& values) {
    relay::Settings settings(name);
    for (const auto& [key, value] : values) settings.set(key, value);
    return settings;
}

}  // namespace baton::audit
