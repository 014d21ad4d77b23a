#include "server/api_metrics.hpp"

#include "baton/version.hpp"
#include "server/process_metrics.hpp"
#include "server/samples.hpp"

namespace baton::server {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<MetricFamily> ApiCounts::families(std::size_t streams) const {
    MetricFamily answers{"baton_api_answers_total",
                         "answers of the API, by the class of their status",
                         MetricType::Counter,
                         {}};
    for (std::size_t digit = 2; digit < answers_.size(); ++digit)
        answers.metric.push_back(sample(answers.type, static_cast<double>(answers_.at(digit)),
                                        {{"status", std::to_string(digit) + "xx"}}));
    std::vector<MetricFamily> all{std::move(answers),
                                  {"baton_api_wrong_tokens_total",
                                   "requests with a token that nobody has",
                                   MetricType::Counter,
                                   {sample(MetricType::Counter, static_cast<double>(wrong_tokens_))}},
                                  {"baton_api_streams",
                                   "pages and programs that follow what happens",
                                   MetricType::Gauge,
                                   {sample(MetricType::Gauge, static_cast<double>(streams))}},
                                  {"baton_dashboard_info",
                                   "1; the version is a label",
                                   MetricType::Gauge,
                                   {sample(MetricType::Gauge, 1, {{"version", version()}})}}};
    add_process_metrics(all);
    return all;
}

}  // namespace baton::server
