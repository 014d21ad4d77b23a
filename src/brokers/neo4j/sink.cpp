#include "brokers/neo4j/sink.hpp"

#include <deque>
#include <set>

#include "brokers/lease_is_over.hpp"
#include "brokers/neo4j/access.hpp"
#include "brokers/neo4j/statement.hpp"
#include "wire/access_refused.hpp"

namespace baton::brokers {

namespace {

using relay::Delivery;
using relay::milliseconds;
using relay::Verdict;

struct Options {
    std::string statement;  // for a batch
    std::string marks;
    bool as_text = false;
    std::size_t batch_size = 0;
    std::size_t batch_bytes = 0;
};

struct Entry {
    std::uint64_t ticket;
    std::string id;
    std::string key;
    std::string json;
};

using Group = std::deque<Entry>;

// What the request is for that is under way: `remains` removes what a crash left of the constraint, `nobody`
// runs the statement for no events.
enum class Asking { nothing, constraint, remains, batch, nobody };

class Neo4jSink final : public relay::Sink {
  public:
    Neo4jSink(Options options, Neo4jAccess access)
        : options_(std::move(options)), access_(std::move(access)), transfers_(access_.options()) {}

    relay::SinkTraits traits() const override {
        return {.keeps_order_after_failure = true, .preferred_batch = options_.batch_size};
    }
    void check() override;
    void send(std::span<const Message> messages) override;
    void collect(std::vector<Delivery>& deliveries, milliseconds patience) override;
    std::string trouble() override { return trouble_; }

  private:
    void add(const Message& message);
    void start_next();
    Group next_group();
    void run_batch();
    void ask(Asking what, const std::string& statement, const std::string& parameters);
    void take(const wire::HttpResponse& response);
    void halve();
    void deliver();
    void fail(const Group& group, Verdict verdict, const std::string& words,
              std::optional<milliseconds> retry_after = {});
    void hold_keys_back();
    void report(const Entry& entry, Verdict verdict, const std::string& words = {},
                std::optional<milliseconds> retry_after = {}) {
        done_.push_back({entry.ticket, verdict, words, retry_after});
    }

    Options options_;
    Neo4jAccess access_;
    wire::HttpTransfers transfers_;
    std::string trouble_;
    bool has_constraint_ = false;

    Asking asking_ = Asking::nothing;
    Group group_;              // what the request is about
    std::string refusal_;      // what was said of it
    std::deque<Group> parts_;  // of batches that were refused, in order, before everything that waits
    Group waiting_;
    std::set<std::string> failed_keys_;  // since the last report
    std::vector<Delivery> done_;
};

std::string words_of_statement(const std::string& words) {
    return "the statement cannot be run: " + words + " (mend `statement` in the settings of the sink)";
}

void Neo4jSink::add(const Message& message) {
    Entry entry{message.ticket, message.message_id, std::string(message.key), {}};
    if (!entry.key.empty() && failed_keys_.contains(entry.key))
        return report(entry, Verdict::retry, "an earlier event of its key was not taken");
    entry.json = neo4j_event(message, options_.as_text);
    waiting_.push_back(std::move(entry));
}

void Neo4jSink::send(std::span<const Message> messages) {
    for (const auto& message : messages) add(message);
    start_next();
}

// What goes into the next transaction: an event once, because the marks of a batch are made all at once.
Group Neo4jSink::next_group() {
    Group group;
    if (!parts_.empty()) {
        group = std::move(parts_.front());
        parts_.pop_front();
        return group;
    }
    std::size_t bytes = 0;
    std::set<std::string_view> ids;
    while (!waiting_.empty() && group.size() < options_.batch_size) {
        const Entry& next = waiting_.front();
        bytes += next.json.size();
        if (!group.empty() && (bytes > options_.batch_bytes || ids.contains(next.id))) break;
        group.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
        ids.insert(group.back().id);
    }
    return group;
}

// Start the next request, as long as none is under way.
void Neo4jSink::start_next() {
    if (asking_ != Asking::nothing || (waiting_.empty() && parts_.empty())) return;
    if (!may_send()) {
        for (const auto& part : parts_) fail(part, Verdict::retry, lease_is_over);
        fail(waiting_, Verdict::retry, lease_is_over);
        parts_.clear();
        waiting_.clear();
        return;
    }
    group_ = next_group();
    if (options_.marks.empty() || has_constraint_) return run_batch();
    ask(Asking::constraint, neo4j_mark_constraint(options_.marks), "{}");
}

void Neo4jSink::run_batch() {
    std::string parameters = R"({"events":[)";
    for (const auto& entry : group_) parameters += (&entry == &group_.front() ? "" : ",") + entry.json;
    ask(Asking::batch, options_.statement, parameters + "]}");
}

void Neo4jSink::ask(Asking what, const std::string& statement, const std::string& parameters) {
    asking_ = what;
    transfers_.start(access_.request(statement, parameters));
}

void Neo4jSink::take(const wire::HttpResponse& response) {
    const Asking asked = std::exchange(asking_, Asking::nothing);
    const auto complaint = Neo4jComplaint::read(response);
    const bool hopeless = response.hopeless != wire::HttpResponse::Hopeless::no;
    if (complaint && (hopeless || complaint->is_refusal() || complaint->passes())) {
        const bool shut = hopeless || complaint->is_refusal();
        trouble_ = "neo4j at " + access_.place() + ": " + complaint->words();
        fail(group_, shut ? Verdict::shut : Verdict::retry, trouble_, response.retry_after);
    } else if (asked == Asking::constraint && complaint && complaint->is_index_in_the_way()) {
        return ask(Asking::remains, neo4j_drop_index_of_marks(options_.marks), "{}");
    } else if (asked == Asking::remains && !complaint) {
        fail(group_, Verdict::retry, "what a crash left of the constraint for marks was removed");
    } else if (asked == Asking::remains || (asked == Asking::constraint && complaint)) {
        trouble_ = "the constraint for marks cannot be made: " + complaint->words() +
                   " (make it by hand: " + neo4j_mark_constraint(options_.marks) + ")";
        fail(group_, Verdict::shut, trouble_);
    } else if (asked == Asking::constraint) {
        has_constraint_ = true;
        return run_batch();
    } else if (asked == Asking::nobody && complaint) {
        trouble_ = words_of_statement(complaint->words());
        fail(group_, Verdict::shut, trouble_);
    } else if (asked == Asking::nobody) {
        return halve();
    } else if (complaint) {
        refusal_ = complaint->words();
        return ask(Asking::nobody, options_.statement, R"({"events":[]})");
    } else {
        deliver();
    }
    group_.clear();
    hold_keys_back();
}

void Neo4jSink::deliver() {
    for (const auto& entry : group_) report(entry, Verdict::delivered);
    trouble_.clear();
}

// The statement is good, so one of the events is not. Nothing of the batch was applied.
void Neo4jSink::halve() {
    Group group = std::move(group_);
    group_.clear();
    if (group.size() == 1) {
        fail(group, Verdict::rejected, refusal_);
        return hold_keys_back();
    }
    Group second;
    while (second.size() < group.size()) {
        second.push_front(std::move(group.back()));
        group.pop_back();
    }
    parts_.push_front(std::move(second));
    parts_.push_front(std::move(group));
}

void Neo4jSink::fail(const Group& group, Verdict verdict, const std::string& words,
                     std::optional<milliseconds> retry_after) {
    for (const auto& entry : group) {
        report(entry, verdict, words, retry_after);
        if (!entry.key.empty()) failed_keys_.insert(entry.key);
    }
}

// Give back what may not go because an earlier event of its key was not taken.
void Neo4jSink::hold_keys_back() {
    if (failed_keys_.empty()) return;
    const auto sift = [this](Group& group) {
        std::erase_if(group, [this](const Entry& entry) {
            if (!failed_keys_.contains(entry.key)) return false;
            report(entry, Verdict::retry, "an earlier event of its key was not taken");
            return true;
        });
    };
    for (auto& part : parts_) sift(part);
    std::erase_if(parts_, [](const Group& part) { return part.empty(); });
    sift(waiting_);
}

void Neo4jSink::collect(std::vector<Delivery>& deliveries, milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        start_next();
        const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        if (asking_ != Asking::nothing) {
            std::vector<wire::HttpResponse> responses;
            transfers_.collect(responses, done_.empty() ? std::max(left, milliseconds(0)) : milliseconds(0));
            for (const auto& response : responses) take(response);
        }
        start_next();
        if (!done_.empty() || asking_ == Asking::nothing || left.count() <= 0) break;
    }
    std::move(done_.begin(), done_.end(), std::back_inserter(deliveries));
    done_.clear();
    failed_keys_.clear();
}

// Run the statement for no events. To have it explained would not show that a parameter is missing.
void Neo4jSink::check() {
    try {
        access_.ask(options_.statement, {{"events", nlohmann::json::array()}});
    } catch (const ConnectionError&) {
        throw;
    } catch (const Error& error) {
        throw UsageError(words_of_statement(error.what()));
    }
}

}  // namespace

std::unique_ptr<relay::Sink> make_neo4j_sink(const relay::Settings& settings) {
    Options options;
    const std::string statement = settings.text("statement");
    if (statement.find_first_not_of(" \t\r\n") == std::string::npos)
        settings.refuse("statement", "is empty",
                        "write Cypher, as in MERGE (n:Order {id: event.key}) SET n += event.payload");
    options.marks = settings.text("marks", "BatonEvent");
    options.statement = neo4j_batch_statement(statement, options.marks);
    const std::string payload = settings.text("payload", "json");
    if (payload != "json" && payload != "text")
        settings.refuse("payload", "is \"" + payload + "\"", "write json or text");
    options.as_text = payload == "text";
    options.batch_size = settings.count("batch_size", 500);
    options.batch_bytes = settings.count("batch_bytes", 1 << 20);
    return std::make_unique<Neo4jSink>(std::move(options), Neo4jAccess(settings));
}

}  // namespace baton::brokers
