#include "settings.hpp"

#include <algorithm>
#include <charconv>

#include "pg/guard.hpp"

namespace baton::settings {

namespace {

enum class Kind { boolean, integer };

struct Setting {
    const char* name;
    Kind kind;
    const char* description;
};

constexpr Setting table[] = {
#include "settings_table.inc"
};

std::array<char*, std::size(table)> values;
char* tenant_id = nullptr;
bool enabled = true;
int nap_ms = 1000;
int workers = 4;
int at_once = 2;

bool is_unset(const char* value) {
    return value == nullptr || *value == '\0';
}

// Accept what baton.setting()'s readers can cast to boolean.
bool check_boolean(char** value, void** /*extra*/, GucSource /*source*/) {
    bool ignored = false;
    if (is_unset(*value) || parse_bool(*value, &ignored)) return true;
    GUC_check_errdetail("It takes a boolean.");
    return false;
}

// Accept a whole number of 0 or more.
bool check_integer(char** value, void** /*extra*/, GucSource /*source*/) {
    if (is_unset(*value)) return true;
    const std::string_view text = *value;
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size() && number >= 0) return true;
    GUC_check_errdetail("It takes a whole number of 0 or more.");
    return false;
}

void define_core() {
    for (std::size_t i = 0; i < std::size(table); ++i)
        DefineCustomStringVariable(
            table[i].name, table[i].description,
            "Empty: the value stored by baton.set_setting(), or the default.", &values[i], "", PGC_USERSET, 0,
            table[i].kind == Kind::boolean ? check_boolean : check_integer, nullptr, nullptr);
    DefineCustomStringVariable("baton.tenant_id", "tenant whose rows this session sees and writes", nullptr,
                               &tenant_id, "", PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

void define_scheduler() {
    DefineCustomBoolVariable("baton.scheduler_enabled", "background workers run the jobs of baton.jobs",
                             nullptr, &enabled, true, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("baton.scheduler_nap", "longest pause between two looks at baton.jobs", nullptr,
                            &nap_ms, 1000, 10, 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("baton.scheduler_workers", "how many databases are served at the same time",
                            "More databases than that take turns.", &workers, 4, 1, 64, PGC_SIGHUP, 0,
                            nullptr, nullptr, nullptr);
    DefineCustomIntVariable("baton.stream_workers",
                            "how many processes refresh the stream tables of a database at the same time",
                            "Those that read the same tables or each other are one piece of work.", &at_once,
                            2, 1, 8, PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
}

}  // namespace

void define() {
    define_core();
    define_scheduler();
}

std::size_t parameter(std::string_view name) {
    return static_cast<std::size_t>(
        std::ranges::find_if(table, [name](const Setting& one) { return one.name == name; }) -
        std::begin(table));
}

bool session_says(std::size_t parameter) {
    return !is_unset(values[parameter]);
}

bool scheduler_enabled() {
    return enabled;
}

int scheduler_nap_ms() {
    return nap_ms;
}

int scheduler_workers() {
    return workers;
}

int stream_workers() {
    return at_once;
}

}  // namespace baton::settings
