#include "cli/trouble_notes.hpp"

#include <algorithm>

namespace baton::cli {

std::optional<std::vector<Trouble>> TroubleNotes::due(const std::vector<Trouble>& now, Time at, bool renew) {
    std::map<std::string, Time> begun;
    std::vector<Trouble> lasting;
    for (const auto& trouble : now) {
        const auto before = begun_.find(trouble.pipeline);
        const Time since = before == begun_.end() ? at : before->second;
        begun[trouble.pipeline] = since;
        if (at - since >= lasts) lasting.push_back(trouble);
    }
    begun_ = std::move(begun);
    if (lasting.empty() && written_.empty()) return std::nullopt;
    if (lost_) return lasting;
    const bool late = at - written_at_ >= pause;
    if (lasting == written_) return renew && late ? std::optional(lasting) : std::nullopt;
    const bool only_words = std::equal(
        lasting.begin(), lasting.end(), written_.begin(), written_.end(),
        [](const Trouble& a, const Trouble& b) { return a.pipeline == b.pipeline && a.state == b.state; });
    if (only_words && !late) return std::nullopt;
    return lasting;
}

void TroubleNotes::written(std::vector<Trouble> all, Time at) {
    written_ = std::move(all);
    written_at_ = at;
    lost_ = false;
}

}  // namespace baton::cli
