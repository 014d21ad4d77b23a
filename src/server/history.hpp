#pragma once
// A day of what happened, in memory: the last hour in steps of 10 s, the day in steps of 60 s. So a page that
// is opened now shows the past. The number of names is bounded: the busiest stay.

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace baton::server {

// What is not known is NaN.
inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

struct SeriesForm {
    const char* name;
    bool highest;  // of several values in a step the highest counts, else their mean
};
inline constexpr std::array whole_series{SeriesForm{"published", false},  SeriesForm{"delivered", false},
                                         SeriesForm{"failed", false},     SeriesForm{"lag_events", true},
                                         SeriesForm{"lag_seconds", true}, SeriesForm{"dead_letters", true},
                                         SeriesForm{"p50_ms", false},     SeriesForm{"p99_ms", true}};
inline constexpr std::array pipeline_series{SeriesForm{"delivered", false}, SeriesForm{"failed", false},
                                            SeriesForm{"p50_ms", false}, SeriesForm{"p99_ms", true}};
inline constexpr std::array group_series{SeriesForm{"lag_events", true}};

using WholeValues = std::array<double, whole_series.size()>;
using PipelineValues = std::array<double, pipeline_series.size()>;

struct Sample {
    WholeValues whole;
    std::map<std::string, PipelineValues> pipelines;
    std::map<std::string, double> groups;  // events that each is behind

    Sample() { whole.fill(unknown); }
};

nlohmann::ordered_json as_json(const WholeValues& values);

class History {
  public:
    static constexpr std::size_t most_names = 50;

    // `at` is in seconds since 1970; a sample that is older than the last is left out.
    void add(long long at, const Sample& sample);
    // {"step", "times", "series", "pipelines", "groups"}; a step of 0 is chosen by `since`.
    nlohmann::ordered_json read(long long since, long long step) const;

  private:
    struct Column {
        std::vector<float> values;
        int samples = 0;  // in the newest step
    };
    using Columns = std::vector<Column>;
    struct Ring {
        long long step;
        std::size_t length;
        long long newest = -1;  // number of the newest step since 1970
        Columns whole;
        std::map<std::string, Columns> pipelines, groups;

        void go_to(long long number);
        void for_each(const std::function<void(Column&)>& act);
        Columns* columns_of(std::map<std::string, Columns>& all, const std::string& name, std::size_t count,
                            double activity);
        void put(Column& column, bool highest, double value) const;
        void add(long long number, const Sample& sample);
        nlohmann::ordered_json read(long long first, long long together) const;
        nlohmann::ordered_json read(const Column& column, bool highest, long long first,
                                    long long together) const;
    };

    mutable std::mutex mutex_;
    Ring hour_{10, 360, -1, {}, {}, {}};
    Ring day_{60, 1440, -1, {}, {}, {}};
};

}  // namespace baton::server
