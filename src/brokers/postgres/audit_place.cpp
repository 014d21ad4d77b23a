#include "brokers/postgres/audit_place.hpp"

#include <optional>
#include <thread>

#include "postgres/connection.hpp"

namespace baton::brokers {

namespace {

using postgres::Connection;

constexpr long looks_between_all = 200;

class PostgresPlace final : public AuditPlace {
  public:
    explicit PostgresPlace(const PlaceRequest& request)
        : name_(request.name), url_(request.reader.text("url")) {}

    void create() override {
        Connection(url_, "baton audit").query("select baton.create_inbox($1)", {name_});
    }
    Values sink_values() override { return {{"inbox", name_}}; }
    // Most rows are added at the end, so news is found by its place; a page that was being written to is read
    // again. Where a transaction was rolled back there is room on an earlier page, which a later row may
    // take: now and then all pages are read.
    std::vector<Received> follow(std::chrono::milliseconds patience) override {
        if (!db_) db_.emplace(url_, "baton audit");
        const auto rows =
            db_->query("select event_id, (ctid::text::point)[0]::bigint from " +
                           db_->escape_identifier(name_) + " where ctid >= ('(' || $1::bigint || ',0)')::tid",
                       {++looks_ % looks_between_all == 0 ? 0 : std::max(page_ - 50, 0L)});
        std::vector<Received> news;
        for (int row = 0; row < rows.rows(); ++row) {
            news.push_back({rows.text(row, 0), {}, {}, {}});
            page_ = std::max(page_, rows.number<long>(row, 1));
        }
        std::this_thread::sleep_for(std::min(patience, std::chrono::milliseconds(5)));
        return news;
    }
    void forget() override { db_.reset(); }
    std::vector<Received> read_all() override {
        Connection db(url_, "baton audit");
        const auto rows =
            db.query("select event_id, coalesce(payload::text, ''), headers ->> 'partition-key' from " +
                     db.escape_identifier(name_) + " order by received_at, ctid");
        std::vector<Received> all;
        for (int row = 0; row < rows.rows(); ++row)
            all.push_back({rows.text(row, 0), rows.text(row, 2), rows.text(row, 1), {}});
        return all;
    }
    void remove() override {
        Connection(url_, "baton audit").query("select baton.drop_inbox($1, cascade => true)", {name_});
    }
    bool deduplicates() const override { return true; }

  private:
    std::string name_;
    std::string url_;
    std::optional<Connection> db_;
    long page_ = 0;
    long looks_ = 0;
};

}  // namespace

std::unique_ptr<AuditPlace> make_postgres_place(const PlaceRequest& request) {
    return std::make_unique<PostgresPlace>(request);
}

}  // namespace baton::brokers
