#include "relay/workload.hpp"

#include <iterator>

namespace baton::relay {

void Workload::add(BatchPtr batch, Span::Time read_at) {
    Work work;
    work.read_at = read_at;
    work.slots.resize(batch->events.size());
    if (next_number_ == 0) next_number_ = batch->number;  // they count on from there
    work.number = next_number_++;
    bytes_ += batch->bytes;
    work.batch = std::move(batch);
    works_.push_back(std::move(work));
    skip_what_is_begun();
}

std::size_t Workload::unsettled() const {
    std::size_t count = 0;
    for (const auto& work : works_) count += work.slots.size() - work.settled;
    return count;
}

const Failure& Workload::fail(Ref ref, std::string error, Failure::Kind kind) {
    slot(ref).finish();
    const Event* failed = &event(ref);
    auto& failures = work(ref).failures;
    const auto place =
        std::upper_bound(failures.begin(), failures.end(), failed,
                         [](const Event* event, const Failure& other) { return event < other.event; });
    return *failures.insert(place, {failed, std::move(error), kind});
}

std::optional<Settled> Workload::take_settled() {
    if (works_.empty()) return {};
    Work& first = works_.front();
    const std::size_t before = first.settled;
    std::vector<Settled::Traced> traces;
    while (first.settled < first.slots.size() && first.slots[first.settled].state == SlotState::done) {
        if (auto& trace = first.slots[first.settled].trace)
            traces.push_back({&first.batch->events[first.settled], std::move(trace)});
        ++first.settled;
    }
    if (first.settled == before && !first.slots.empty()) return {};
    const Event* end = first.batch->events.data() + first.settled;
    const auto split = std::find_if(first.failures.begin(), first.failures.end(),
                                    [end](const Failure& failure) { return failure.event >= end; });
    Settled part{first.batch, first.settled, {}, std::move(traces)};
    part.failures.assign(std::make_move_iterator(first.failures.begin()), std::make_move_iterator(split));
    first.failures.erase(first.failures.begin(), split);
    if (first.settled == first.slots.size()) {
        bytes_ -= first.batch->bytes;
        works_.pop_front();
        --cursor_;  // all of it was begun
    }
    return part;
}

// The upper half of its batch's number is that which makes it no older than the first.
Ref Workload::of_ticket(std::uint64_t ticket) const {
    const auto first = works_.front().number;
    const auto later = static_cast<std::uint32_t>((ticket >> 32) - first);
    return {first + later, static_cast<std::uint32_t>(ticket >> 8 & 0xffffff)};
}

}  // namespace baton::relay
