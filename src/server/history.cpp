#include "server/history.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace baton::server {

using Json = nlohmann::ordered_json;

namespace {

constexpr auto nothing = std::numeric_limits<float>::quiet_NaN();

// Three digits are enough for a chart.
Json number(double value) {
    if (!std::isfinite(value)) return nullptr;
    return std::round(value * 1000) / 1000;
}

}  // namespace

Json as_json(const WholeValues& values) {
    Json all = Json::object();
    for (std::size_t i = 0; i < whole_series.size(); ++i) all[whole_series[i].name] = number(values[i]);
    return all;
}

void History::Ring::for_each(const std::function<void(Column&)>& act) {
    for (auto& column : whole) act(column);
    for (auto* all : {&pipelines, &groups})
        for (auto& [name, columns] : *all)
            for (auto& column : columns) act(column);
}

// Make this step the newest. Steps between of which nobody told are empty.
void History::Ring::go_to(long long number) {
    if (number <= newest) return;
    const long long first =
        newest < 0 ? number : std::max(newest + 1, number - static_cast<long long>(length) + 1);
    for_each([&](Column& column) {
        for (long long at = first; at <= number; ++at)
            column.values[static_cast<std::size_t>(at) % length] = nothing;
        column.samples = 0;
    });
    newest = number;
    for (auto* all : {&pipelines, &groups})
        std::erase_if(*all, [](const auto& one) {
            return std::ranges::all_of(one.second, [](const Column& column) {
                return std::ranges::all_of(column.values, [](float value) { return std::isnan(value); });
            });
        });
}

// The columns of a name. Where there are too many names, a busier one takes the place of the quietest.
History::Columns* History::Ring::columns_of(std::map<std::string, Columns>& all, const std::string& name,
                                            std::size_t count, double activity) {
    if (const auto found = all.find(name); found != all.end()) return &found->second;
    if (all.size() >= most_names) {
        const auto activity_of = [](const auto& one) {
            float highest = 0;
            for (const float value : one.second.front().values)
                if (value > highest) highest = value;
            return highest;
        };
        const auto quietest = std::ranges::min_element(
            all, [&](const auto& a, const auto& b) { return activity_of(a) < activity_of(b); });
        if (!(activity > static_cast<double>(activity_of(*quietest)))) return nullptr;
        all.erase(quietest);
    }
    return &all.emplace(name, Columns(count, Column{std::vector<float>(length, nothing), 0})).first->second;
}

void History::Ring::put(Column& column, bool highest, double value) const {
    if (std::isnan(value)) return;
    float& place = column.values[static_cast<std::size_t>(newest) % length];
    const auto now = static_cast<float>(value);
    if (column.samples == 0 || std::isnan(place))
        place = now;
    else
        place =
            highest ? std::max(place, now) : place + (now - place) / static_cast<float>(column.samples + 1);
    ++column.samples;
}

void History::Ring::add(long long number, const Sample& sample) {
    if (number < newest) return;
    if (whole.empty()) whole.assign(whole_series.size(), Column{std::vector<float>(length, nothing), 0});
    go_to(number);
    for (std::size_t i = 0; i < whole_series.size(); ++i)
        put(whole[i], whole_series[i].highest, sample.whole[i]);
    for (const auto& [name, values] : sample.pipelines)
        if (auto* columns = columns_of(pipelines, name, pipeline_series.size(), values[0]))
            for (std::size_t i = 0; i < values.size(); ++i)
                put((*columns)[i], pipeline_series[i].highest, values[i]);
    for (const auto& [name, lag] : sample.groups)
        if (auto* columns = columns_of(groups, name, group_series.size(), lag))
            put(columns->front(), group_series[0].highest, lag);
}

Json History::Ring::read(const Column& column, bool highest, long long first, long long together) const {
    Json values = Json::array();
    for (long long at = first; at <= newest; at += together) {
        double sum = 0;
        double most = unknown;
        int known = 0;
        for (long long one = at; one < at + together && one <= newest; ++one) {
            const double value = static_cast<double>(column.values[static_cast<std::size_t>(one) % length]);
            if (std::isnan(value)) continue;
            sum += value;
            most = known == 0 ? value : std::max(most, value);
            ++known;
        }
        values.push_back(number(known == 0 ? unknown : highest ? most : sum / known));
    }
    return values;
}

Json History::Ring::read(long long first, long long together) const {
    Json times = Json::array();
    Json series = Json::object();
    Json of_pipelines = Json::object();
    Json of_groups = Json::object();
    if (newest >= 0) {
        first = std::clamp(first, newest - static_cast<long long>(length) + 1, newest + 1);
        for (long long at = first; at <= newest; at += together) times.push_back(at * step);
    }
    for (std::size_t i = 0; i < whole_series.size(); ++i)
        series[whole_series[i].name] =
            whole.empty() ? Json::array() : read(whole[i], whole_series[i].highest, first, together);
    const auto fill = [&](Json& into, const auto& all, const auto& forms) {
        for (const auto& [name, columns] : all) {
            Json one = Json::object();
            for (std::size_t i = 0; i < forms.size(); ++i)
                one[forms[i].name] = read(columns[i], forms[i].highest, first, together);
            into[name] = std::move(one);
        }
    };
    fill(of_pipelines, pipelines, pipeline_series);
    fill(of_groups, groups, group_series);
    return {{"step", step * together},
            {"times", std::move(times)},
            {"series", std::move(series)},
            {"pipelines", std::move(of_pipelines)},
            {"groups", std::move(of_groups)}};
}

void History::add(long long at, const Sample& sample) {
    const std::lock_guard lock(mutex_);
    hour_.add(at / hour_.step, sample);
    day_.add(at / day_.step, sample);
}

Json History::read(long long since, long long step) const {
    const std::lock_guard lock(mutex_);
    const auto hour_ago = (hour_.newest - static_cast<long long>(hour_.length)) * hour_.step;
    const bool fine = step > 0 ? step < day_.step : since >= hour_ago;
    const Ring& ring = fine ? hour_ : day_;
    // Steps that begin before `since` would show a part of what they are about.
    const long long together = std::max(1LL, (std::max(step, ring.step) + ring.step - 1) / ring.step);
    return ring.read((since + ring.step - 1) / ring.step, together);
}

}  // namespace baton::server
