#include "relay/pipeline.hpp"

#include <algorithm>

namespace baton::relay {

using namespace std::chrono_literals;

const char* name_of(PipelineState state) {
    constexpr const char* names[] = {"starting", "standby", "running", "retrying", "halted", "stopped"};
    return names[static_cast<std::size_t>(state)];
}

// What the two threads of a session share.
struct Pipeline::Session {
    std::unique_ptr<Feed> feed;
    std::mutex mutex;
    std::condition_variable changed;
    struct Read {
        BatchPtr batch;
        Span::Time at;
    };
    std::deque<Read> queue;
    std::atomic<std::size_t> queued_bytes{0};
    std::atomic<std::size_t> taken_bytes{0};  // with the dispatcher
    std::atomic<std::uint64_t> read{0};
    bool stop_reading = false;
    bool finished = false;   // everything is settled and written: the source may be given back
    bool abandoned = false;  // ... or nothing more is to be done
    std::exception_ptr failure;

    bool failed() {
        const std::lock_guard lock(mutex);
        return failure != nullptr;
    }
    void rethrow() {
        const std::lock_guard lock(mutex);
        if (failure) std::rethrow_exception(failure);
    }
};

namespace {

// How long the last position may take to be written, and the source to be given back, when a session ends.
constexpr milliseconds leaving_limit = 5s;

}  // namespace

Pipeline::Pipeline(PipelineParts parts) : parts_(std::move(parts)) {
    status_.name = parts_.name;
    status_.group = parts_.group;
    streak_ = Streak(parts_.policy.give_up_limit);
}

Pipeline::~Pipeline() {
    request_stop();
    join();
}

void Pipeline::start() {
    thread_ = std::thread([this] { run(); });
}

void Pipeline::request_stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.notify_all();
    if (session_ != nullptr) session_->feed->interrupt();
}

void Pipeline::join() {
    if (thread_.joinable()) thread_.join();
}

PipelineStatus Pipeline::status() const {
    const std::lock_guard lock(mutex_);
    return status_;
}

void Pipeline::enter(PipelineState state, const std::string& detail) {
    PipelineStatus changed;
    {
        const std::lock_guard lock(mutex_);
        if (status_.state == state && status_.detail == detail) return;
        status_.state = state;
        status_.detail = detail;
        changed = status_;
    }
    if (parts_.on_state) parts_.on_state(changed);
}

void Pipeline::pause(milliseconds time) {
    std::unique_lock lock(mutex_);
    wanted_.wait_for(lock, time, [this] { return stopping_.load(); });
}

// Hold one session after another until a stop is asked for.
void Pipeline::run() {
    unsigned failures = 0;
    while (!stopping_) {
        const auto began = Clock::now();
        try {
            if (!hold_session()) {
                const auto interval = parts_.standby_interval;
                pause(interval / 2 + interval * static_cast<int>(random_() % 100) / 200);
            }
            failures = 0;
        } catch (const Halted& error) {
            enter(PipelineState::halted, error.what());
            std::unique_lock lock(mutex_);
            wanted_.wait(lock, [this] { return stopping_.load(); });
        } catch (const HeldTooLong& error) {
            if (stopping_) break;
            ask_sink_first_ = true;
            enter(PipelineState::retrying, error.what());
        } catch (const std::exception& error) {
            if (stopping_) break;
            if (Clock::now() - began > 60s) failures = 0;
            enter(PipelineState::retrying, error.what());
            pause(parts_.reconnect.delay(++failures, random_));
        }
    }
    enter(PipelineState::stopped);
    ended_ = true;
}

bool Pipeline::hold_session() {
    if (ask_sink_first_) parts_.open_sink()->check();
    ask_sink_first_ = false;
    Session session;
    std::string holder;
    session.feed = parts_.open_source(holder);
    if (parts_.found_group) {
        const std::lock_guard lock(mutex_);
        status_.group = *parts_.found_group;
    }
    if (!session.feed) {
        enter(PipelineState::standby, holder);
        return false;
    }
    // The sink goes before the batches that its messages look into.
    std::unique_ptr<Sink> sink = parts_.open_sink();
    sink->send_while([feed = session.feed.get()] { return feed->may_send(); });
    Dispatcher dispatcher(*sink, *session.feed, parts_.transformer, parts_.policy, session.feed->ordered());
    dispatcher.resume(streak_);
    dispatcher.on_failure(parts_.on_failure);
    dispatcher.on_delivered(parts_.on_delivered);
    if (parts_.traces) dispatcher.trace(EventSpans(parts_.traces, parts_.trace_names));
    {
        const std::lock_guard lock(mutex_);
        session_ = &session;
        ++status_.sessions;
    }
    session.feed->load_at_most(dispatcher.sink_takes());
    enter(PipelineState::running);
    std::thread reader([this, &session] { read_on(session); });
    std::exception_ptr failure;
    try {
        send_on(session, dispatcher);
    } catch (...) {
        failure = std::current_exception();
    }
    // What is in flight is dropped first: the reader may still wait for a server that does not answer.
    sink.reset();
    {
        const std::lock_guard lock(session.mutex);
        session.abandoned = failure != nullptr;
        session.finished = true;
        session.stop_reading = true;
    }
    session.feed->end_by(Clock::now() + (failure ? 0ms : leaving_limit));
    session.feed->interrupt();
    reader.join();
    {
        const std::lock_guard lock(mutex_);
        session_ = nullptr;
        before_ += dispatcher.counts();
        read_before_ += session.read;
        streak_ = dispatcher.streak();
        status_.in_flight = status_.buffered = status_.buffered_bytes = 0;
        status_.trouble.clear();
        trouble_told_.reset();
    }
    if (failure) std::rethrow_exception(failure);
    session.rethrow();
    return true;
}

// The reader's thread: read while there is room, and tend the source meanwhile and until the end.
void Pipeline::read_on(Session& session) {
    try {
        for (;;) {
            bool room = false;
            {
                const std::lock_guard lock(session.mutex);
                if (session.finished) break;
                room = !session.stop_reading && !stopping_ &&
                       session.queued_bytes + session.taken_bytes < parts_.max_bytes;
            }
            if (!room) {
                session.feed->tend(20ms);
                continue;
            }
            if (BatchPtr batch = session.feed->read(500ms)) {
                session.read += batch->events.size();
                count_batch(*batch);
                const std::lock_guard lock(session.mutex);
                session.queued_bytes += batch->bytes;
                session.queue.push_back({std::move(batch), parts_.traces ? Tracer::now() : Span::Time{}});
                session.changed.notify_one();
            }
        }
        if (!session.abandoned) session.feed->close();
    } catch (...) {
        const std::lock_guard lock(session.mutex);
        session.failure = std::current_exception();
        session.changed.notify_one();
    }
}

void Pipeline::count_batch(const Batch& batch) {
    const std::lock_guard lock(mutex_);
    if (!batch.events.empty()) status_.batch_sizes.add(static_cast<double>(batch.events.size()));
}

// The sink's thread: until a stop is asked for, or something breaks.
void Pipeline::send_on(Session& session, Dispatcher& dispatcher) {
    while (!stopping_) {
        session.rethrow();
        end_before_lease(session);
        session.feed->load_at_most(dispatcher.sink_takes());
        take_batches(session, dispatcher);
        if (dispatcher.idle()) {
            idle(session, dispatcher);
            continue;
        }
        dispatcher.step(Clock::now(), dispatcher.has_room() ? 2ms : 20ms);
        if (dispatcher.in_flight() == 0 && !dispatcher.idle()) idle(session, dispatcher);
        publish(session, dispatcher);
    }
    drain(session, dispatcher);
}

// The session ends before its lease does: a successor must not meet messages of ours that are still under
// way.
void Pipeline::end_before_lease(Session& session) {
    if (session.feed->may_send()) return;
    session.rethrow();  // the reader knows more about it
    throw ConnectionError("the database does not answer, and the lease would run out");
}

// Let what is in flight come home, and write the last position.
void Pipeline::drain(Session& session, Dispatcher& dispatcher) {
    dispatcher.stop_sending();
    const auto deadline = Clock::now() + parts_.drain_limit;
    session.feed->end_by(deadline + leaving_limit);
    while (!dispatcher.drained() && Clock::now() < deadline) {
        session.rethrow();
        end_before_lease(session);
        dispatcher.step(Clock::now(), 20ms);
        if (dispatcher.in_flight() == 0) std::this_thread::sleep_for(1ms);  // it may wait for its rate
    }
    publish(session, dispatcher);
    session.feed->flush();
}

void Pipeline::take_batches(Session& session, Dispatcher& dispatcher) {
    while (dispatcher.has_room()) {
        Session::Read read;
        {
            const std::lock_guard lock(session.mutex);
            if (session.queue.empty()) break;
            read = std::move(session.queue.front());
            session.queue.pop_front();
            session.queued_bytes -= read.batch->bytes;
            session.taken_bytes += read.batch->bytes;
        }
        end_before_lease(session);
        dispatcher.add(std::move(read.batch), read.at);
        dispatcher.step(Clock::now(), 0ms);
    }
    session.taken_bytes = dispatcher.bytes();
}

// Wait for a batch, or for the dispatcher's clock.
void Pipeline::idle(Session& session, Dispatcher& dispatcher) {
    publish(session, dispatcher);
    auto until = Clock::now() + 200ms;
    if (const auto timer = dispatcher.next_timer(); timer && !dispatcher.idle()) {
        until = std::min(until, *timer);
    }
    std::unique_lock lock(session.mutex);
    session.changed.wait_until(lock, until, [&] {
        return (!session.queue.empty() && dispatcher.has_room()) || session.failure != nullptr ||
               stopping_.load();
    });
}

void Pipeline::publish(const Session& session, const Dispatcher& dispatcher) {
    {
        const std::lock_guard lock(mutex_);
        status_.counts = before_;
        status_.counts += dispatcher.counts();
        status_.read = read_before_ + session.read;
        status_.in_flight = dispatcher.in_flight();
        status_.buffered = dispatcher.unsettled();
        status_.buffered_bytes = dispatcher.bytes() + session.queued_bytes;
        status_.circuit_open = dispatcher.circuit_open();
        Trouble trouble = dispatcher.trouble();
        status_.trouble = std::move(trouble.words);
        status_.fault = trouble.fault;
        if (status_.trouble.empty()) status_.trouble = session.feed->trouble();
    }
    watch_trouble(Clock::now());
}

void Pipeline::watch_trouble(Clock::time_point now) {
    if (status_.trouble.empty()) {
        troubled_since_.reset();
        if (!std::exchange(trouble_told_, std::nullopt)) return;
    } else {
        if (!troubled_since_) troubled_since_ = now;
        if (now - *troubled_since_ < 1s) return;
        if (trouble_told_ && trouble_told_->fault == status_.fault &&
            now - trouble_told_->at < parts_.trouble_interval)
            return;
        trouble_told_ = {now, status_.fault};
    }
    if (parts_.on_trouble) parts_.on_trouble(status());
}

}  // namespace baton::relay
