// baton_internal.capture_changes(): the triggers of a source write its changes into its change buffer, in the
// writer's transaction. Whoever writes needs no right to the buffer: rows go there directly, not by a
// statement.
//
// Statement triggers with transition tables see what a session does; a row trigger that fires only for
// replicas sees what logical replication applies, which fires no statement triggers; a TRUNCATE takes every
// row of the table. A row and its opposite may be left out or come in any order: readers sum up weights.
//
// A row that has no room in the buffer, which notes some bytes beside it, is missed rather than its writer
// failed: a mark says so, and who reads the buffer begins anew.
//
// TRUNCATE of several tables fires all BEFORE triggers, then empties all tables. A trigger of another table
// may write to one whose rows were captured already; the AFTER trigger finds that out.

#include "doorbell.hpp"
#include "stream/capture_target.hpp"
#include "stream/immediate.hpp"

BATON_FUNCTION(baton_capture_changes);
BATON_FUNCTION(baton_current_step);

using namespace baton;
using stream::CaptureTarget;

namespace {

constexpr int rows_per_batch = 256;
constexpr int rows_for_ring = 5000;  // from so many rows on, the buffer's pages do not crowd out others

// How many statements of the present transaction were captured.
struct Steps {
    FullTransactionId transaction;
    std::int32_t count;
};
Steps steps{};

std::int32_t current_step() {
    const FullTransactionId now = GetTopFullTransactionIdIfAny();
    return FullTransactionIdIsValid(now) && FullTransactionIdEquals(now, steps.transaction) ? steps.count : 0;
}

std::int32_t next_step() {
    const FullTransactionId now = GetTopFullTransactionId();
    steps = {now, FullTransactionIdEquals(now, steps.transaction) ? steps.count + 1 : 1};
    return steps.count;
}

// Writes rows into a buffer in batches. Made and used inside of pg::call: no destructors; begin() waits for
// the first row.
struct Writer {
    const CaptureTarget* target;
    Relation buffer;
    std::int64_t expected;  // rows, at most
    TupleTableSlot** slots;
    int slot_count;
    int pending;
    BulkInsertState ring;
    MemoryContext scratch;
    Datum* values;
    bool* nulls;
    bool missed;  // a row had no room: what else there is nobody relies on
};

void begin(Writer& writer) {
    const TupleDesc shape = RelationGetDescr(writer.buffer);
    writer.slot_count = static_cast<int>(std::min<std::int64_t>(writer.expected, rows_per_batch));
    const auto slots = static_cast<std::size_t>(writer.slot_count);
    writer.slots = static_cast<TupleTableSlot**>(palloc(sizeof(TupleTableSlot*) * slots));
    for (std::size_t i = 0; i < slots; ++i)
        writer.slots[i] = MakeSingleTupleTableSlot(shape, &TTSOpsHeapTuple);
    writer.values = static_cast<Datum*>(palloc0(sizeof(Datum) * static_cast<std::size_t>(shape->natts)));
    writer.nulls = static_cast<bool*>(palloc0(sizeof(bool) * static_cast<std::size_t>(shape->natts)));
    writer.values[stream::buffer_xid] = FullTransactionIdGetDatum(GetTopFullTransactionId());
    writer.values[stream::buffer_step] = Int32GetDatum(next_step());
    if (writer.expected > rows_for_ring) writer.ring = GetBulkInsertState();
    if (writer.expected > rows_per_batch)
        writer.scratch = AllocSetContextCreateInternal(CurrentMemoryContext, "baton change capture",
                                                       ALLOCSET_DEFAULT_SIZES);
}

void flush(Writer& writer) {
    if (writer.pending == 0) return;
    MemoryContext const before = CurrentMemoryContext;
    if (writer.scratch != nullptr) MemoryContextSwitchTo(writer.scratch);
    table_multi_insert(writer.buffer, writer.slots, writer.pending, GetCurrentCommandId(true), 0,
                       writer.ring);
    MemoryContextSwitchTo(before);
    if (writer.scratch != nullptr) MemoryContextReset(writer.scratch);
    writer.pending = 0;
}

void finish(Writer& writer) {
    flush(writer);
    for (int i = 0; i < writer.slot_count; ++i) ExecDropSingleTupleTableSlot(writer.slots[i]);
    if (writer.ring != nullptr) FreeBulkInsertState(writer.ring);
    if (writer.scratch != nullptr) MemoryContextDelete(writer.scratch);
}

// What a value that the server can store elsewhere takes up in its row, at most: what is not longer than
// that, compressed or not, may stay there.
struct LeftBehind {
    std::int32_t length;
    std::array<char, MAXALIGN(TOAST_POINTER_SIZE) - sizeof(std::int32_t)> rest;
};

// Whether the row that `writer.values` holds fits a page, when all is stored elsewhere that can be.
bool has_room(const Writer& writer) {
    const TupleDesc shape = RelationGetDescr(writer.buffer);
    LeftBehind left{};
    SET_VARSIZE_COMPRESSED(&left, sizeof left);
    auto* const values = static_cast<Datum*>(palloc(sizeof(Datum) * static_cast<std::size_t>(shape->natts)));
    bool has_null = false;
    for (int i = 0; i < shape->natts; ++i) {
        has_null |= writer.nulls[i];
        const Form_pg_attribute column = TupleDescAttr(shape, i);
        const bool can_leave = !writer.nulls[i] && column->attlen == -1 &&
                               column->attstorage != TYPSTORAGE_PLAIN &&
                               VARSIZE_ANY(DatumGetPointer(writer.values[i])) > sizeof left;
        values[i] = can_leave ? PointerGetDatum(&left) : writer.values[i];
    }
    const Size head = MAXALIGN(SizeofHeapTupleHeader + (has_null ? BITMAPLEN(shape->natts) : 0));
    const Size least = head + heap_compute_data_size(shape, values, writer.nulls);
    pfree(values);
    return MAXALIGN(least) <= MaxHeapTupleSize;
}

// Write a row whose columns were fetched; without a row, a mark alone.
void put(Writer& writer, const TupleTableSlot* row, int16 weight) {
    if (writer.slots == nullptr) begin(writer);
    writer.values[stream::buffer_weight] = Int16GetDatum(weight);
    int to = stream::buffer_first_value;
    for (const auto& [from, length, by_value] : writer.target->columns) {
        writer.nulls[to] = row == nullptr || from == InvalidAttrNumber || row->tts_isnull[from - 1];
        writer.values[to] = writer.nulls[to] ? Datum{0} : row->tts_values[from - 1];
        ++to;
    }
    HeapTuple const formed = heap_form_tuple(RelationGetDescr(writer.buffer), writer.values, writer.nulls);
    if (formed->t_len > TOAST_TUPLE_THRESHOLD && !has_room(writer)) {
        heap_freetuple(formed);
        writer.missed = true;
        put(writer, nullptr, stream::something_was_missed);
        return;
    }
    ExecStoreHeapTuple(formed, writer.slots[writer.pending], true);
    if (++writer.pending == writer.slot_count) flush(writer);
}

// Whether both are one value that is stored elsewhere.
bool is_one_pointer(Datum one, Datum other) {
    const auto* const first = reinterpret_cast<const varlena*>(DatumGetPointer(one));
    const auto* const second = reinterpret_cast<const varlena*>(DatumGetPointer(other));
    return VARATT_IS_EXTERNAL_ONDISK(first) && VARATT_IS_EXTERNAL_ONDISK(second) &&
           std::memcmp(first, second, VARSIZE_EXTERNAL(first)) == 0;
}

// Whether two rows are the same in every column that somebody wants.
bool are_alike(const CaptureTarget& target, const TupleTableSlot* one, const TupleTableSlot* other) {
    return std::ranges::all_of(target.columns, [&](const stream::CapturedColumn& column) {
        if (column.from == InvalidAttrNumber) return true;
        const int i = column.from - 1;
        if (one->tts_isnull[i] || other->tts_isnull[i]) return one->tts_isnull[i] == other->tts_isnull[i];
        const Datum first = one->tts_values[i];
        const Datum second = other->tts_values[i];
        return (column.length == -1 && is_one_pointer(first, second)) ||
               datum_image_eq(first, second, column.by_value, column.length);
    });
}

// Write what has become of a row; null: the row was not there before, or is no more.
void put_change(Writer& writer, TupleTableSlot* before, TupleTableSlot* after) {
    if (writer.missed) return;
    if (before != nullptr) slot_getsomeattrs(before, writer.target->last_column);
    if (after != nullptr) slot_getsomeattrs(after, writer.target->last_column);
    if (before != nullptr && after != nullptr && are_alike(*writer.target, before, after)) return;
    if (before != nullptr) put(writer, before, -1);
    if (after != nullptr && !writer.missed) put(writer, after, 1);
}

// A transition table's rows, one after the other.
struct Rows {
    Tuplestorestate* store;
    TupleTableSlot* slot;
};

Rows open_rows(Tuplestorestate* store, Relation table) {
    if (store == nullptr) return {nullptr, nullptr};
    tuplestore_select_read_pointer(store, 0);  // another trigger may have read with one of its own
    tuplestore_rescan(store);
    return {store, MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsMinimalTuple)};
}

TupleTableSlot* next(const Rows& rows) {
    if (rows.store == nullptr || !tuplestore_gettupleslot(rows.store, true, false, rows.slot)) return nullptr;
    return rows.slot;
}

std::int64_t count_rows(Tuplestorestate* store) {
    return store == nullptr ? 0 : tuplestore_tuple_count(store);
}

// The rows before and after an UPDATE come in the same order. Where a trigger has kept a row from moving to
// another partition they do not, and fewer rows are left out.
void capture_statement(Writer& writer, const TriggerData& trigger) {
    const Rows before = open_rows(trigger.tg_oldtable, trigger.tg_relation);
    const Rows after = open_rows(trigger.tg_newtable, trigger.tg_relation);
    for (;;) {
        TupleTableSlot* const old_row = next(before);
        TupleTableSlot* const new_row = next(after);
        if (old_row == nullptr && new_row == nullptr) break;
        put_change(writer, old_row, new_row);
        CHECK_FOR_INTERRUPTS();
    }
    if (before.slot != nullptr) ExecDropSingleTupleTableSlot(before.slot);
    if (after.slot != nullptr) ExecDropSingleTupleTableSlot(after.slot);
}

void capture_row(Writer& writer, const TriggerData& trigger) {
    const bool is_new = TRIGGER_FIRED_BY_INSERT(trigger.tg_event);
    put_change(writer, is_new ? nullptr : trigger.tg_trigslot,
               is_new ? trigger.tg_trigslot : trigger.tg_newslot);
}

// Every row goes, also one that the transaction's own snapshot does not show.
void capture_truncate(Writer& writer, Relation table) {
    const Snapshot now = RegisterSnapshot(GetLatestSnapshot());
    const TableScanDesc scan = table_beginscan(table, now, 0, nullptr);
    TupleTableSlot* const row = table_slot_create(table, nullptr);
    while (table_scan_getnextslot(scan, ForwardScanDirection, row)) {
        put_change(writer, row, nullptr);
        CHECK_FOR_INTERRUPTS();
    }
    ExecDropSingleTupleTableSlot(row);
    table_endscan(scan);
    UnregisterSnapshot(now);
}

// How a trigger may be fired.
enum class Firing { begin, statement, row, truncate, end, none };

Firing firing_of(const TriggerData& trigger) {
    const TriggerEvent event = trigger.tg_event;
    if (TRIGGER_FIRED_BY_TRUNCATE(event)) return TRIGGER_FIRED_BEFORE(event) ? Firing::truncate : Firing::end;
    if (TRIGGER_FIRED_BEFORE(event)) return TRIGGER_FIRED_FOR_ROW(event) ? Firing::none : Firing::begin;
    if (!TRIGGER_FIRED_AFTER(event)) return Firing::none;
    if (TRIGGER_FIRED_FOR_ROW(event)) return Firing::row;
    const bool has_old = trigger.tg_oldtable != nullptr || TRIGGER_FIRED_BY_INSERT(event);
    const bool has_new = trigger.tg_newtable != nullptr || TRIGGER_FIRED_BY_DELETE(event);
    return has_old && has_new ? Firing::statement : Firing::none;
}

// How many rows a trigger brings, at most.
std::int64_t expected_rows(const TriggerData& trigger, Firing firing) {
    switch (firing) {
        case Firing::statement:
            return count_rows(trigger.tg_oldtable) + count_rows(trigger.tg_newtable);
        case Firing::row:
            return 2;
        default:
            return std::numeric_limits<std::int64_t>::max();
    }
}

// A table whose rows a TRUNCATE is about to take. One that fails leaves its entry; the next begins it anew.
struct Truncation {
    Oid table;
    Oid source;
    bool overtaken;  // somebody wrote to the source after its rows were captured
};

std::vector<Truncation>& truncations() {
    static auto& all = *new std::vector<Truncation>;  // never destroyed: nothing of ours runs at exit
    return all;
}

// Forget a truncation; true when it was overtaken.
bool end_truncation(Oid table) {
    const auto found = std::ranges::find(truncations(), table, &Truncation::table);
    if (found == truncations().end()) return false;
    const bool overtaken = found->overtaken;
    truncations().erase(found);
    return overtaken;
}

void begin_truncation(Oid table, Oid source) {
    end_truncation(table);
    truncations().push_back({table, source, false});
}

void overtake_truncations(Oid source) {
    for (auto& truncation : truncations()) truncation.overtaken |= truncation.source == source;
}

// Write what a trigger tells of; false when that is nothing that anybody wants. Only for use inside of
// pg::call.
bool capture(const stream::OpenTarget& open, const TriggerData& trigger, Firing firing,
             std::int64_t expected) {
    Writer writer{open.target, open.buffer, expected, nullptr, 0,    0,
                  nullptr,     nullptr,     nullptr,  nullptr, false};
    if (!open.target->fits || firing == Firing::end)
        put(writer, nullptr, stream::something_was_missed);
    else if (firing == Firing::statement)
        capture_statement(writer, trigger);
    else if (firing == Firing::row)
        capture_row(writer, trigger);
    else
        capture_truncate(writer, trigger.tg_relation);
    const bool wrote = writer.slots != nullptr;
    if (wrote) finish(writer);
    table_close(open.buffer, NoLock);
    return wrote;
}

// Let those know at commit who wait for changes.
void announce(Oid source) {
    doorbell::ring_at_commit(source);
    doorbell::ring_at_commit(doorbell::all_sources);
}

// Whether there is nothing to write: a row that its statement's own triggers capture, or the end of a
// TRUNCATE whose rows were captured before.
bool is_captured_otherwise(const stream::OpenTarget& open, Firing firing, bool overtaken) {
    if (firing == Firing::end) return !overtaken;
    return firing == Firing::row && stream::is_open(open.target->watched);
}

// Capture what a trigger brings. Returns the source that has changed, or nothing.
Oid write_changes(const TriggerData& trigger, Firing firing, Oid function) {
    if (firing == Firing::begin) return InvalidOid;
    const std::int64_t expected = expected_rows(trigger, firing);
    if (expected == 0) return InvalidOid;
    const Oid table = RelationGetRelid(trigger.tg_relation);
    const bool overtaken = firing == Firing::end && end_truncation(table);
    const Oid schema = pg::call([&] { return get_func_namespace(function); });
    const auto open = stream::open_target(trigger.tg_relation, schema);
    if (open.buffer == nullptr) return InvalidOid;
    const Oid source = open.target->source;
    if (is_captured_otherwise(open, firing, overtaken)) {
        pg::call([&] { table_close(open.buffer, NoLock); });
        return firing == Firing::end ? source : InvalidOid;
    }
    const bool wrote = pg::call([&] { return capture(open, trigger, firing, expected); });
    if (firing == Firing::truncate) begin_truncation(table, source);
    if (!wrote) return InvalidOid;
    if (firing == Firing::statement || firing == Firing::row) overtake_truncations(source);
    announce(source);
    return source;
}

// Whether a stream table that reads the table is refreshed in the writer's transaction: then the triggers
// tell of the beginning of statements, too.
bool has_immediate_readers(Relation table, Oid function) {
    const TriggerDesc* const triggers = table->trigdesc;
    if (triggers == nullptr || !triggers->trig_update_before_statement) return false;
    return std::any_of(triggers->triggers, triggers->triggers + triggers->numtriggers,
                       [&](const Trigger& trigger) {
                           return trigger.tgfoid == function &&
                                  TRIGGER_TYPE_MATCHES(trigger.tgtype, TRIGGER_TYPE_STATEMENT,
                                                       TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_UPDATE);
                       });
}

// Tell of what has happened, for those who are refreshed in the writer's transaction.
void tell(const TriggerData& trigger, Firing firing, Oid changed, Oid function) {
    const stream::Change change{RelationGetRelid(trigger.tg_relation),
                                trigger.tg_event & TRIGGER_EVENT_OPMASK};
    if (firing == Firing::row)
        stream::row_captured(changed, function);
    else if (firing == Firing::statement || firing == Firing::end)
        stream::close_change(change, changed, function);
}

}  // namespace

extern "C" Datum baton_capture_changes(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const auto* const trigger =
            CALLED_AS_TRIGGER(fcinfo) ? reinterpret_cast<const TriggerData*>(fcinfo->context) : nullptr;
        const Firing firing = trigger == nullptr ? Firing::none : firing_of(*trigger);
        if (firing == Firing::none)
            throw SqlError("capture_changes is a function of the triggers that baton makes", "39P01", "",
                           "the sources of a stream table get them from baton.create_stream_table()");
        const Oid function = fcinfo->flinfo->fn_oid;
        const bool immediate = has_immediate_readers(trigger->tg_relation, function);
        if (immediate && (firing == Firing::begin || firing == Firing::truncate))
            stream::open_change(
                {RelationGetRelid(trigger->tg_relation), trigger->tg_event & TRIGGER_EVENT_OPMASK});
        const Oid changed = write_changes(*trigger, firing, function);
        if (immediate) tell(*trigger, firing, changed, function);
        return PointerGetDatum(nullptr);
    });
}

extern "C" Datum baton_current_step(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum { return Int32GetDatum(current_step()); });
}
