#pragma once
// A table that baton adopted, as a relay works it: functions run the statements of the layout as the table's
// owner (sql/adopt_work.sql).

#include <string>
#include <vector>

#include "postgres/connection.hpp"
#include "relay/io.hpp"

namespace baton::tables {

// Events as the server sent them in text form.
struct AdoptedBatch : relay::Batch {
    // Events over `event_bytes` are marked. The batch ends before the first other event that came without its
    // payload.
    AdoptedBatch(postgres::Result rows, PayloadKind kind, std::int64_t event_bytes);

    postgres::Result rows;
    bool cut = false;     // not all rows are among the events
    std::string decoded;  // payloads that the server sends in another form than their bytes
};

// How many rows a claim may take, and how many bytes of them are loaded.
struct ClaimRoom {
    int rows;
    std::int64_t event_bytes;
    std::int64_t batch_bytes;
};

// Rows that a claim leaves out, because an earlier row of their key is not done.
struct Waiting {
    std::vector<std::string> keys;
    std::vector<std::string> except;  // ids of rows for which the others wait
};

struct Failed {
    std::string id;
    bool dead;
};

struct HeldRow {
    std::string id;
    std::string key;
};

class AdoptedTable {
  public:
    // Throws SqlError when `name` is no adopted table.
    static AdoptedTable find(postgres::Connection& db, const std::string& name);

    const std::string& id() const { return id_; }
    const std::string& name() const { return name_; }  // qualified
    // True when a claim outlives its transaction.
    bool keeps_locks() const { return keeps_locks_; }
    // True when the table knows who holds a row.
    bool knows_worker() const { return knows_worker_; }
    // True when the layout has a key for order.
    bool has_partition_key() const { return has_partition_key_; }

    // The name under which a relay locks rows.
    std::string worker_name(postgres::Connection& db, const std::string& relay) const;
    // Claim rows. Null when no row is due.
    std::shared_ptr<AdoptedBatch> claim(postgres::Connection& db, const std::string& worker,
                                        const ClaimRoom& room, relay::milliseconds lease,
                                        const Waiting& waiting) const;
    // These touch only rows that the worker holds. They return how many rows the worker has lost (fail: which
    // rows it still had).
    std::size_t acknowledge(postgres::Connection& db, const std::vector<std::string>& ids,
                            const std::string& worker) const;
    std::vector<Failed> fail(postgres::Connection& db, const std::vector<std::string>& ids,
                             const std::string& error, bool permanent, const std::string& worker) const;
    std::size_t renew(postgres::Connection& db, const std::vector<std::string>& ids,
                      const std::string& worker) const;
    // Give rows back without counting an attempt.
    void release(postgres::Connection& db, const std::vector<std::string>& ids,
                 const std::string& worker) const;
    // Give back all rows that the worker holds.
    void release_all(postgres::Connection& db, const std::string& worker) const;
    // The rows for which later rows of their key must wait. With `ids`: those of them that still hold up
    // others.
    std::vector<HeldRow> held(postgres::Connection& db, const std::string& worker) const;
    std::vector<HeldRow> still_held(postgres::Connection& db, const std::string& worker,
                                    const std::vector<std::string>& ids) const;

  private:
    std::string id_, name_;
    bool keeps_locks_ = false;
    bool knows_worker_ = false;
    bool has_partition_key_ = false;
    PayloadKind payload_kind_ = PayloadKind::json;
};

// True when `name` is an adopted table. Throws SqlError when there is no such table at all.
bool is_adopted(postgres::Connection& db, const std::string& name);

}  // namespace baton::tables
