#include "otlp/exporter.hpp"

#include <curl/curl.h>
#include <zlib.h>

#include <algorithm>

#include "baton/error.hpp"
#include "baton/version.hpp"
#include "otlp/encode.hpp"

namespace baton::otlp {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t longest_answer = 16 << 10;
constexpr milliseconds first_pause = 1s;
constexpr milliseconds longest_pause = 30s;
constexpr milliseconds longest_wish = 60s;  // of a collector, by Retry-After

void initialise_curl() {
    static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (done != CURLE_OK) throw Error(std::string("libcurl: ") + curl_easy_strerror(done));
}

// Empty when zlib fails, which it does only without memory.
std::string compressed(const std::string& text) {
    constexpr int gzip_window = 15 + 16;
    z_stream stream{};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return {};
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int result = deflate(&stream, Z_FINISH);
    out.resize(result == Z_STREAM_END ? stream.total_out : 0);
    deflateEnd(&stream);
    return out;
}

}  // namespace

struct Exporter::Connection {
    std::unique_ptr<CURL, void (*)(CURL*)> easy{curl_easy_init(), curl_easy_cleanup};
    std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers{nullptr, curl_slist_free_all};
    std::string answer;

    static std::size_t take_answer(char* bytes, std::size_t, std::size_t size, void* self) {
        auto& answer = static_cast<Connection*>(self)->answer;
        answer.append(bytes, std::min(size, longest_answer - answer.size()));
        return answer.size() < longest_answer ? size : 0;
    }
    // End the request when the time for flushing is over.
    static int look(void* exporter, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
        const Clock::rep end = static_cast<Exporter*>(exporter)->end_;
        return end != 0 && Clock::now().time_since_epoch().count() > end ? 1 : 0;
    }
};

Exporter::Exporter(Options options, OnTrouble on_trouble)
    : options_(std::move(options)), on_trouble_(std::move(on_trouble)) {
    initialise_curl();
    connection_ = std::make_unique<Connection>();
    CURL* easy = connection_->easy.get();
    if (easy == nullptr) throw Error("libcurl: out of memory");
    curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:");  // an upload begins at once
    list = curl_slist_append(list, (std::string("User-Agent: baton-otlp/") + version()).c_str());
    if (options_.gzip) list = curl_slist_append(list, "Content-Encoding: gzip");
    for (const auto& [name, value] : options_.headers)
        list = curl_slist_append(list, (value.empty() ? name + ";" : name + ": " + value).c_str());
    connection_->headers.reset(list);
    const milliseconds timeout = options_.timeout > 0ms ? options_.timeout : 10s;
    curl_easy_setopt(easy, CURLOPT_URL, options_.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");  // whatever the environment says, as for the relay's sinks
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &Connection::look);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Connection::take_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, connection_.get());
    if (!options_.ca.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca.c_str());
    if (!options_.certificate.empty()) curl_easy_setopt(easy, CURLOPT_SSLCERT, options_.certificate.c_str());
    if (!options_.key.empty()) curl_easy_setopt(easy, CURLOPT_SSLKEY, options_.key.c_str());
    thread_ = std::thread([this] { run(); });
}

Exporter::~Exporter() {
    close();
}

void Exporter::take(Span span) noexcept {
    try {
        const std::lock_guard lock(mutex_);
        if (closing_ || queue_.size() >= options_.queue) {
            ++dropped_;
            return;
        }
        queue_.push_back(std::move(span));
        if (queue_.size() == options_.batch) changed_.notify_one();
    } catch (const std::exception&) {  // there is no memory
        ++dropped_;
    }
}

void Exporter::close() {
    {
        const std::lock_guard lock(mutex_);
        if (!closing_) end_ = (Clock::now() + options_.flush_limit).time_since_epoch().count();
        closing_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
}

void Exporter::run() {
    std::vector<Span> batch;
    while (wait_for_batch(batch)) {
        try {
            deliver(batch);
        } catch (const std::exception& error) {
            dropped_ += batch.size();
            tell(error.what());
        }
    }
}

// Take the next spans; false at the end.
bool Exporter::wait_for_batch(std::vector<Span>& batch) {
    batch.clear();
    std::unique_lock lock(mutex_);
    const auto until = Clock::now() + options_.interval;
    changed_.wait_until(lock, until, [this] { return closing_ || queue_.size() >= options_.batch; });
    const bool over = closing_ && Clock::now().time_since_epoch().count() > end_;
    if (over) dropped_ += std::exchange(queue_, {}).size();
    const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), options_.batch));
    batch.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(queue_.begin() + count));
    queue_.erase(queue_.begin(), queue_.begin() + count);
    return !closing_ || !batch.empty();
}

// Send a batch until the collector has taken it, or there is no more hope.
void Exporter::deliver(std::span<const Span> batch) {
    if (batch.empty()) return;
    std::string body = encode(options_.resource, batch);
    if (options_.gzip) body = compressed(body);
    for (unsigned attempt = 1;; ++attempt) {
        const Answer answer = post(body);
        tell(answer.kind == Answer::Kind::taken ? std::string() : answer.reason);
        if (answer.kind == Answer::Kind::taken) {
            const std::size_t rejected = std::min(answer.rejected, batch.size());
            exported_ += batch.size() - rejected;
            dropped_ += rejected;
            return;
        }
        if (answer.kind == Answer::Kind::refused || attempt == tries) break;
        const auto grown = std::min(first_pause * (1 << (attempt - 1)), longest_pause);
        const auto some = grown / 2 + grown * static_cast<int>(random_() % 100) / 200;
        if (!pause(std::max(some, std::min(answer.retry_after, longest_wish)))) break;
    }
    dropped_ += batch.size();
}

Exporter::Answer Exporter::post(const std::string& body) {
    CURL* easy = connection_->easy.get();
    connection_->answer.clear();
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    const CURLcode result = curl_easy_perform(easy);
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    // We cut a long answer off ourselves; its status stands.
    if (result != CURLE_OK && !(result == CURLE_WRITE_ERROR && status != 0))
        return {result == CURLE_URL_MALFORMAT ? Answer::Kind::refused : Answer::Kind::later,
                curl_easy_strerror(result)};
    if (status >= 200 && status < 300)
        return {Answer::Kind::taken, {}, 0ms, rejected_spans(connection_->answer)};
    const bool later = status == 429 || status == 502 || status == 503 || status == 504;
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
    const milliseconds wish = std::chrono::seconds(std::clamp<curl_off_t>(seconds, 0, 3600));
    return {later ? Answer::Kind::later : Answer::Kind::refused,
            "the collector answers " + std::to_string(status), wish};
}

// Wait before the next try. False when the end has come: there will be none.
bool Exporter::pause(milliseconds time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, time, [this] { return closing_; });
}

void Exporter::tell(const std::string& reason) {
    const bool troubled = !reason.empty();
    if (troubled == troubled_) return;
    troubled_ = troubled;
    if (on_trouble_) on_trouble_(reason);
}

}  // namespace baton::otlp
