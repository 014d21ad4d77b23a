#include "tables/claim_check.hpp"

#include <algorithm>
#include <utility>

#include "event/json.hpp"

namespace baton::tables {

namespace {

// A claim check is small; the rows of a delta may be named like anything.
bool is_claim_check(const Event& event) {
    constexpr std::size_t largest = 4096;
    if (event.event_type != "stream_table.delta" || !event.payload || event.payload->size() > largest)
        return false;
    const auto members = json_members(*event.payload);
    return std::any_of(members.begin(), members.end(), [](const auto& member) {
        return member.first == "claim_check" && member.second == "true";
    });
}

// The columns of baton_internal.read_claim_check_part().
enum : int { first_row, last_row, is_last, size, payload };

}  // namespace

std::vector<long long> ClaimCheck::set_apart(OutboxBatch& batch) const {
    if (rows_ == 0) return {};
    const auto found = std::find_if(batch.events.begin(), batch.events.end(), is_claim_check);
    if (found == batch.events.end()) return {};
    batch.claim_check = found == batch.events.begin();
    return batch.cut_from(batch.claim_check ? 1 : static_cast<std::size_t>(found - batch.events.begin()));
}

void ClaimCheck::begin(std::shared_ptr<OutboxBatch> whole) {
    whole_ = std::move(whole);
    number_ = 0;
    upto_ = 0;
    state_ = State::due;
}

void ClaimCheck::read(std::int64_t bytes, std::int64_t load_limit, Take take) {
    state_ = State::under_way;
    const Event& event = whole_->events.front();
    pipe_.send("select * from baton_internal.read_claim_check_part($1, $2, $3, $4, $5, $6, $7, $8)",
               {relation_, event.id, upto_, rows_, std::min(bytes, load_limit), load_limit, number_ + 1,
                std::string(*event.payload)},
               [this, take = std::move(take)](postgres::Result page) { take(part_of(std::move(page))); });
    pipe_.sync();
}

std::shared_ptr<OutboxBatch> ClaimCheck::part_of(postgres::Result page) {
    if (page.empty()) {
        if (number_ > 0)
            throw Error("the rows of event " + std::string(whole_->events.front().source_id) +
                        " are gone, although the relay had not sent all of them");
        state_ = State::done;
        whole_->claim_check = false;
        return std::exchange(whole_, nullptr);
    }
    ++number_;
    upto_ = page.number<int>(0, last_row);
    auto part = std::make_shared<OutboxBatch>(whole_, std::move(page));
    Event& event = part->events.front();
    part->texts = std::string(event.event_id) + "#" + part->rows.text(0, first_row) + "-" +
                  part->rows.text(0, last_row);
    event.event_id = part->texts;
    part->last_part = part->rows.boolean(0, is_last);
    if (part->rows.is_null(0, payload)) {
        event.payload = std::nullopt;
        event.too_large = part->rows.number<std::size_t>(0, size);
    } else {
        event.payload = part->rows.view(0, payload);
    }
    return part;
}

bool ClaimCheck::settled(const OutboxBatch& batch, bool failed) {
    if (!batch.whole) return false;
    state_ = failed || batch.last_part ? State::done : State::due;
    return true;
}

}  // namespace baton::tables
