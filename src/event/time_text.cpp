#include "event/time_text.hpp"

#include <cstdlib>

namespace baton {

namespace {

// Take a number of so many digits off the front; nothing when there are none.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
    if (text.size() < digits) return std::nullopt;
    int number = 0;
    for (const char c : text.substr(0, digits)) {
        if (c < '0' || c > '9') return std::nullopt;
        number = number * 10 + (c - '0');
    }
    text.remove_prefix(digits);
    return number;
}

// Take one of these characters off the front.
bool take_one(std::string_view& text, std::string_view of) {
    if (text.empty() || of.find(text.front()) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
}

// Take HH:MM off the front.
std::optional<std::chrono::minutes> take_hours(std::string_view& text) {
    const auto hours = take_number(text, 2);
    if (!hours || *hours > 23 || !take_one(text, ":")) return std::nullopt;
    const auto minutes = take_number(text, 2);
    if (!minutes || *minutes > 59) return std::nullopt;
    return std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
}

// Take YYYY-MM-DD off the front.
std::optional<std::chrono::sys_days> take_date(std::string_view& text) {
    const auto year = take_number(text, 4);
    if (!year || !take_one(text, "-")) return std::nullopt;
    const auto month = take_number(text, 2);
    if (!month || !take_one(text, "-")) return std::nullopt;
    const auto day = take_number(text, 2);
    if (!day) return std::nullopt;
    const std::chrono::year_month_day date(std::chrono::year(*year),
                                           std::chrono::month(static_cast<unsigned>(*month)),
                                           std::chrono::day(static_cast<unsigned>(*day)));
    return date.ok() ? std::optional(std::chrono::sys_days(date)) : std::nullopt;
}

}  // namespace

TimeText::TimeText(Timestamp time) {
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    const int year = static_cast<int>(date.year());
    char* end = chars_.data();
    const auto write = [&end](std::int64_t number, std::ptrdiff_t digits, char after) {
        end += digits;
        for (char* place = end; place != end - digits; number /= 10)
            *--place = static_cast<char>('0' + number % 10);
        *end++ = after;
    };
    if (year < 0) *end++ = '-';
    write(std::abs(year), std::abs(year) > 9999 ? 6 : 4, '-');
    write(static_cast<unsigned>(date.month()), 2, '-');
    write(static_cast<unsigned>(date.day()), 2, 'T');
    write(clock.hours().count(), 2, ':');
    write(clock.minutes().count(), 2, ':');
    write(clock.seconds().count(), 2, '.');
    write(clock.subseconds().count(), 6, 'Z');
    size_ = static_cast<std::size_t>(end - chars_.data());
}

std::optional<Timestamp> read_rfc3339(std::string_view text) {
    const auto date = take_date(text);
    if (!date || !take_one(text, "Tt ")) return std::nullopt;
    const auto hours = take_hours(text);
    if (!hours || !take_one(text, ":")) return std::nullopt;
    const auto seconds = take_number(text, 2);
    if (!seconds || *seconds > 60) return std::nullopt;  // 60: a leap second
    std::int64_t micros = 0;
    if (take_one(text, "."))
        for (std::int64_t place = 100'000; !text.empty() && text.front() >= '0' && text.front() <= '9';
             place /= 10) {
            micros += (text.front() - '0') * place;
            text.remove_prefix(1);
        }
    std::chrono::minutes offset(0);
    if (!take_one(text, "Zz")) {
        const bool behind = text.starts_with('-');
        if (!take_one(text, "+-")) return std::nullopt;
        const auto given = take_hours(text);
        if (!given) return std::nullopt;
        offset = behind ? -*given : *given;
    }
    if (!text.empty()) return std::nullopt;
    const Timestamp time =
        *date + *hours + std::chrono::seconds(*seconds) + std::chrono::microseconds(micros) - offset;
    const auto year = std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(time)).year();
    if (year < std::chrono::year(0) || year > std::chrono::year(9999))
        return std::nullopt;  // its offset leads out
    return time;
}

}  // namespace baton
