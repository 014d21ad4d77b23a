#include "assembly/outbox_parts.hpp"

#include "assembly/read_settings.hpp"
#include "brokers/registry.hpp"
#include "tables/adopted_reader.hpp"
#include "tables/adopted_source.hpp"
#include "tables/outbox_source.hpp"

namespace baton::assembly {

using namespace std::chrono_literals;
using relay::Settings;
using std::chrono::milliseconds;
using tables::AdoptedOptions;
using tables::AdoptedSource;
using tables::OutboxOptions;
using tables::OutboxSource;

namespace {

// What the group of a pipeline needs to be.
struct GroupOptions {
    std::string outbox;
    std::string start;
    std::int64_t max_attempts;
    milliseconds retry_base;
    milliseconds retry_limit;
    std::string on_poison;
};

// The server with the table: the relay's own, or the one that a source of type postgres names.
std::string server_of(const Settings& source, const RelayIdentity& identity) {
    return brokers::is_elsewhere(source) ? source.text("url") : identity.db;
}

OutboxOptions read_source(const Settings& source, const std::string& name, const RelayIdentity& identity) {
    OutboxOptions options;
    options.conninfo = server_of(source, identity);
    options.owner = identity.owner;
    options.group = source.text("group", name);
    options.lease = source.duration("lease", options.lease);
    if (options.lease < 1s) source.refuse("lease", "must be at least 1s");
    options.batch = static_cast<int>(
        std::min<std::size_t>(source.count("batch", static_cast<std::size_t>(options.batch)), 100'000));
    options.batch_bytes = source.count("batch_bytes", options.batch_bytes);
    options.wake_up = one_of(source, "wake_up", "auto", {"auto", "bell", "notify", "poll"});
    if (source.has("claim_check_rows"))
        options.claim_check_rows = static_cast<int>(source.count("claim_check_rows", 1, 1'000'000));
    return options;
}

// The same for a table that is adopted, which is known only when the database is asked.
AdoptedOptions read_adopted(const Settings& source, const OutboxOptions& outbox) {
    AdoptedOptions options;
    options.conninfo = outbox.conninfo;
    options.table = source.text("outbox");
    options.owner = outbox.owner + " " + outbox.group;
    options.lease = outbox.lease;
    if (source.has("batch")) options.batch = outbox.batch;
    options.batch_bytes = outbox.batch_bytes;
    options.max_event_bytes = outbox.max_event_bytes;
    options.poll = source.span("poll", options.poll);
    options.hold_limit = source.span("hold_limit", options.hold_limit);
    if (source.has("ordered")) options.ordered = source.boolean("ordered", true);
    return options;
}

// ... and for a consumer of its done events.
tables::ReaderOptions read_reader(const Settings& source, const AdoptedOptions& adopted) {
    tables::ReaderOptions options;
    options.conninfo = adopted.conninfo;
    options.table = adopted.table;
    options.consumer = source.text("consumer", "");
    options.partition = source.text("partition", "");
    options.lease = adopted.lease;
    options.batch = adopted.batch;
    options.batch_bytes = adopted.batch_bytes;
    options.max_event_bytes = adopted.max_event_bytes;
    options.poll = adopted.poll;
    options.hold_limit = adopted.hold_limit;
    return options;
}

// Refuse what an adopted table decides by itself.
void check_adopted(const Settings& source, const Settings& failure) {
    const std::string hint = "the table's own rules hold; see baton.adopt_outbox() for changing its mapping";
    for (const auto* key : {"group", "start", "claim_check_rows"})
        if (source.has(key)) source.refuse(key, "is not for an adopted table", hint);
    if (source.has("partition") && !source.has("consumer"))
        source.refuse("partition", "needs a consumer whose offset it is");
    if (source.has("ordered") && source.has("consumer"))
        source.refuse("ordered", "is not for a consumer", "its events come in the order of their ids");
    for (const auto* key : {"max_attempts", "retry_base", "retry_limit"})
        if (failure.has(key)) failure.refuse(key, "is not for an adopted table", hint);
    if (failure.text("on_poison", "park") == "block_key")
        failure.refuse("on_poison", "is \"block_key\", which an adopted table does not know",
                       "write park or halt");
    const std::string wake_up = source.text("wake_up", "auto");
    if (wake_up != "auto" && wake_up != "poll")
        source.refuse("wake_up", "is \"" + wake_up + "\"",
                      "an adopted table has no trigger that would ring: write poll");
}

// Refuse what a table of baton's own does not know.
void check_managed(const Settings& source) {
    for (const auto* key : {"poll", "hold_limit", "ordered", "consumer", "partition"})
        if (source.has(key)) source.refuse(key, "is for adopted tables only", "take the line out");
}

// Whoever works a table needs its owner's leave for that.
void check_rights(postgres::Connection& db, const tables::AdoptedTable& table) {
    if (db.value("select has_table_privilege($1, 'select') and has_table_privilege($1, 'update')",
                 {table.name()}) == "t")
        return;
    throw Error(db.value("select current_user") + " may not claim rows of " + table.name(),
                "grant select, update (and delete, where rows move or are deleted) on it");
}

GroupOptions read_group(const Settings& source, const Settings& failure) {
    const auto retry = read_backoff(failure, "retry_base", "retry_limit", {1s, 5min});
    return {source.text("outbox"),
            one_of(source, "start", "earliest", {"earliest", "latest"}),
            static_cast<std::int64_t>(failure.count("max_attempts", 10)),
            retry.base,
            retry.limit,
            failure.text("on_poison", "park")};
}

std::string interval(milliseconds time) {
    return std::to_string(time.count()) + " ms";
}

void prepare_group(postgres::Connection& db, const std::string& name, const GroupOptions& group) {
    db.query("select baton_internal.prepare_group($1, $2, $3, $4, $5::interval, $6::interval, $7)",
             {name, group.outbox, group.start, static_cast<long>(group.max_attempts),
              interval(group.retry_base), interval(group.retry_limit), group.on_poison});
}

// How long the server may take for what has to be asked before a table is taken. A stop waits for that.
constexpr milliseconds opening_limit = 10s;

struct TableOptions {
    OutboxOptions outbox;
    GroupOptions group;
    AdoptedOptions adopted;
    tables::ReaderOptions reader;
};

// Take the table, whatever it is; null when somebody else has it. `found` becomes its name in the health
// report.
std::unique_ptr<relay::Feed> take(const TableOptions& options, const Settings& source,
                                  const Settings& failure, tables::Holder& holder, std::string& found) {
    postgres::Connection db(options.outbox.conninfo, "baton relay",
                            std::make_shared<postgres::Patience>(opening_limit));
    if (!tables::is_adopted(db, options.adopted.table)) {
        check_managed(source);
        found = options.outbox.group;
        prepare_group(db, options.outbox.group, options.group);
        return OutboxSource::take(options.outbox, holder);
    }
    check_adopted(source, failure);
    found = tables::AdoptedTable::find(db, options.adopted.table).name();
    if (options.reader.consumer.empty()) return AdoptedSource::take(options.adopted, holder);
    return tables::AdoptedReader::take(options.reader, holder);
}

}  // namespace

void read_from_outbox(relay::PipelineParts& parts, const Settings& source, const Settings& failure,
                      const RelayIdentity& identity) {
    TableOptions options;
    options.outbox = read_source(source, parts.name, identity);
    options.outbox.max_event_bytes = parts.policy.max_event_bytes;
    options.group = read_group(source, failure);
    options.adopted = read_adopted(source, options.outbox);
    options.reader = read_reader(source, options.adopted);
    // An offset cannot leave an event out, so none of its key may go before it.
    if (!options.reader.consumer.empty() && parts.policy.on_poison == relay::OnPoison::park)
        parts.policy.on_poison = relay::OnPoison::block_key;
    parts.standby_interval = std::max<milliseconds>(options.outbox.lease / 4, 200ms);
    source.refuse_unknown();
    // Only the relay's own server is asked how its groups are.
    const bool reported = !brokers::is_elsewhere(source);
    if (reported) parts.group = options.outbox.group;
    if (reported) parts.found_group = std::make_shared<std::string>(parts.group);
    parts.open_source = [options, source, failure,
                         report = parts.found_group](std::string& who) -> std::unique_ptr<relay::Feed> {
        tables::Holder holder;
        std::string found;
        auto taken = take(options, source, failure, holder, found);
        if (report) *report = found;
        if (!taken) who = holder.by + " has it until " + holder.until;
        return taken;
    };
}

void check_outbox(const Settings& source, const Settings& failure, const RelayIdentity& identity) {
    postgres::Connection db(server_of(source, identity), "baton relay check",
                            std::make_shared<postgres::Patience>(opening_limit));
    const std::string outbox = source.text("outbox");
    if (!tables::is_adopted(db, outbox)) {
        check_managed(source);
        db.query("select baton_internal.find_outbox(baton_internal.resolve_table($1))", {outbox});
        if (source.has("claim_check_rows"))
            db.query("select baton_internal.check_for_claim_checks(baton_internal.resolve_table($1))",
                     {outbox});
        return;
    }
    check_adopted(source, failure);
    const auto table = tables::AdoptedTable::find(db, outbox);
    if (source.has("consumer"))
        db.query("select baton_internal.find_with_offsets($1)", {outbox});
    else
        check_rights(db, table);
}

}  // namespace baton::assembly
