// baton_internal.sift_event(): the row trigger of an outbox. Lets ordinary events pass, and asks
// baton_internal.judge_event() about all others, so that what an outbox takes in is decided in one place.

#include "sift.hpp"

#include "pg/guard.hpp"
#include "pg/sequence.hpp"
#include "settings.hpp"

BATON_FUNCTION(baton_sift_event);

using namespace baton;

namespace {

// As in judge_event(), or stricter: what is not below these is judged there.
constexpr std::size_t no_limit_is_below = 65536;
constexpr std::size_t every_text_may_have = 500;
constexpr TimestampTz first_moment = -730119 * USECS_PER_DAY;  // year 1
constexpr TimestampTz last_moment = 2921938 * USECS_PER_DAY;   // December 9999

constexpr std::array text_columns{"event_type",      "aggregate_type", "aggregate_id",   "topic",
                                  "partition_key",   "trace_id",       "correlation_id", "causation_id",
                                  "idempotency_key", "tenant_id"};

// Which sequence numbers the events of a partition, and which one holds the mark of their outbox
// (sql/floors.sql). Found once per session, and again when the server says that some table has changed.
struct Numbering {
    Oid partition;
    Oid ids;
    Oid mark;
};

auto& known_numberings() {
    static auto& known = *new std::vector<Numbering>;  // never destroyed: nothing of ours runs at exit
    return known;
}

bool numberings_are_stale = true;

void forget_numberings(Datum, Oid) {
    numberings_are_stale = true;
}

// Where the columns are, and the judge: looked up once per statement.
struct Sieve {
    AttrNumber xid;
    AttrNumber id;
    AttrNumber event_type;
    AttrNumber schema_version;
    AttrNumber payload;
    AttrNumber headers;
    AttrNumber idempotency_key;
    AttrNumber occurred_at;
    AttrNumber available_at;
    std::array<AttrNumber, text_columns.size()> texts;
    bool holds_json;  // as text, which need not be sound
    Numbering numbering;
    FmgrInfo judge;
};

AttrNumber column(TupleDesc shape, const char* name) {
    const int number = SPI_fnumber(shape, name);
    if (number <= 0) elog(ERROR, "an outbox has no column %s", name);
    return static_cast<AttrNumber>(number);
}

// Find a function without arguments, which stands in the schema of the sieve.
Oid find_function(const char* name, Oid sieve) {
    oidvector* const none = buildoidvector(nullptr, 0);
    const Oid found = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
                                      PointerGetDatum(none), ObjectIdGetDatum(get_func_namespace(sieve)));
    if (!OidIsValid(found)) elog(ERROR, "%s() is missing", name);
    return found;
}

// Find the sequence behind the ids of a partition's log, and its mark, which stands in the schema of the
// sieve.
Numbering find_numbering(Oid partition, Oid sieve, const std::string& outbox_id) {
    const std::string mark = "floor_" + outbox_id;
    const Oid log = pg::call([&] {
        return get_rel_relispartition(partition) ? llast_oid(get_partition_ancestors(partition)) : partition;
    });
    return {partition, pg::sequence_of(log, pg::call([&] { return get_attnum(log, "id"); })),
            pg::call([&] { return get_relname_relid(mark.c_str(), get_func_namespace(sieve)); })};
}

Numbering numbering_of(Oid partition, Oid sieve, const Trigger& trigger) {
    static const bool watching = [] {
        CacheRegisterRelcacheCallback(forget_numberings, Datum{0});
        return true;
    }();
    auto& known = known_numberings();
    if (watching && std::exchange(numberings_are_stale, false)) known.clear();
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const Numbering& one) { return one.partition == partition; });
    if (found != known.end()) return *found;
    known.push_back(find_numbering(partition, sieve, trigger.tgnargs > 0 ? trigger.tgargs[0] : ""));
    return known.back();
}

Sieve& sieve_of(FunctionCallInfo fcinfo, const TriggerData& trigger) {
    const Relation partition = trigger.tg_relation;
    FmgrInfo& self = *fcinfo->flinfo;
    if (self.fn_extra == nullptr) {
        const Numbering numbering =
            numbering_of(RelationGetRelid(partition), self.fn_oid, *trigger.tg_trigger);
        pg::call([&] {
            const TupleDesc shape = RelationGetDescr(partition);
            auto* const made = static_cast<Sieve*>(MemoryContextAllocZero(self.fn_mcxt, sizeof(Sieve)));
            made->xid = column(shape, "xid");
            made->id = column(shape, "id");
            made->event_type = column(shape, "event_type");
            made->schema_version = column(shape, "schema_version");
            made->payload = column(shape, "payload");
            made->headers = column(shape, "headers");
            made->idempotency_key = column(shape, "idempotency_key");
            made->occurred_at = column(shape, "occurred_at");
            made->available_at = column(shape, "available_at");
            for (std::size_t i = 0; i < text_columns.size(); ++i)
                made->texts[i] = column(shape, text_columns[i]);
            made->holds_json = SPI_gettypeid(shape, made->payload) == JSONOID;
            made->numbering = numbering;
            self.fn_extra = made;
        });
    }
    return *static_cast<Sieve*>(self.fn_extra);
}

// A column's value, or null.
const varlena* value_of(TupleTableSlot* event, AttrNumber column) {
    bool is_null = false;
    const Datum value = slot_getattr(event, column, &is_null);
    return is_null ? nullptr : reinterpret_cast<const varlena*>(DatumGetPointer(value));
}

// The bytes that a value takes, or more than any event may have when that does not tell how many there are.
std::size_t size_of(const varlena* value) {
    if (value == nullptr) return 0;
    if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value)) return no_limit_is_below + 1;
    return VARSIZE_ANY(value);
}

bool is_short(const varlena* text) {
    return text == nullptr || (!VARATT_IS_EXTERNAL(text) && !VARATT_IS_COMPRESSED(text) &&
                               VARSIZE_ANY_EXHDR(text) <= every_text_may_have);
}

// Whether json can for certain be read as jsonb: no escapes, no exponents, and neither numbers nor depth
// without end.
bool is_plain_json(const varlena* json) {
    if (json == nullptr) return true;
    if (size_of(json) > 8192) return false;
    const std::string_view text(VARDATA_ANY(json), VARSIZE_ANY_EXHDR(json));
    char before = ' ';
    int opened = 0;
    for (const char c : text) {
        if (c == '\\' || ((c == 'e' || c == 'E') && before >= '0' && before <= '9')) return false;
        if (c == '[' || c == '{') ++opened;
        before = c;
    }
    return opened <= 500;
}

bool is_empty_text(const varlena* value) {
    return value != nullptr && !VARATT_IS_EXTERNAL(value) && VARSIZE_ANY_EXHDR(value) == 0;
}

// Whether a jsonb is for certain an object.
bool is_object(const varlena* value) {
    return VARATT_IS_4B_U(value) && JB_ROOT_IS_OBJECT(reinterpret_cast<const Jsonb*>(value));
}

bool is_negative(TupleTableSlot* event, AttrNumber column) {
    bool is_null = false;
    const Datum value = slot_getattr(event, column, &is_null);
    return !is_null && DatumGetInt32(value) < 0;
}

// Whether a time is one that everybody can compute with, or null.
bool is_usual_time(TupleTableSlot* event, AttrNumber column) {
    bool is_null = false;
    const TimestampTz moment = DatumGetTimestampTz(slot_getattr(event, column, &is_null));
    return is_null || (moment >= first_moment && moment < last_moment);
}

bool are_short(const Sieve& sieve, TupleTableSlot* event) {
    return std::ranges::all_of(sieve.texts, [&](AttrNumber text) { return is_short(value_of(event, text)); });
}

// The mark as this transaction knows it: read once, after the transaction got its id. Whoever raises the mark
// later counts on nothing that this transaction does.
struct KnownMark {
    Oid mark;
    std::uint64_t xid;
    std::int64_t value;
};
KnownMark known_mark{InvalidOid, 0, 0};

std::int64_t mark_of(Oid mark, std::uint64_t xid) {
    if (known_mark.mark != mark || known_mark.xid != xid) known_mark = {mark, xid, pg::last_value(mark)};
    return known_mark.value;
}

// Whether the event's id is one that the log's sequence has handed out, above the mark, for this transaction.
bool is_handed_out(const Sieve& sieve, TupleTableSlot* event) {
    bool no_id = false;
    bool no_xid = false;
    const auto id = DatumGetInt64(slot_getattr(event, sieve.id, &no_id));
    const auto xid =
        U64FromFullTransactionId(DatumGetFullTransactionId(slot_getattr(event, sieve.xid, &no_xid)));
    if (no_id || no_xid || !OidIsValid(sieve.numbering.ids) || !OidIsValid(sieve.numbering.mark) ||
        xid != U64FromFullTransactionId(GetTopFullTransactionIdIfAny()))
        return false;
    return id > mark_of(sieve.numbering.mark, xid) && id <= pg::last_value(sieve.numbering.ids);
}

// The switch publishing_is_on(), as it stands in the catalog (sql/switches.sql). Read once per session, and
// again when the server says that some function has changed. A session that has set the parameter gets "off":
// the judge knows.
struct KnownSwitch {
    std::uint64_t changes;  // of functions, when the switch was read
    bool is_on;
};
KnownSwitch known_switch{0, false};
std::uint64_t function_changes = 1;

void count_change(Datum, int, uint32) {
    ++function_changes;
}

bool is_publishing_on(Oid sieve) {
    static const bool watching = [] {
        CacheRegisterSyscacheCallback(PROCOID, count_change, Datum{0});
        return true;
    }();
    static const std::size_t parameter = settings::parameter("baton.outbox_enabled");
    if (!watching || settings::session_says(parameter)) return false;
    if (known_switch.changes != function_changes) {
        const std::uint64_t changes = function_changes;  // one that comes while the switch is read counts
        const bool is_on = pg::call(
            [&] { return DatumGetBool(OidFunctionCall0(find_function("publishing_is_on", sieve))); });
        known_switch = {changes, is_on};
    }
    return known_switch.is_on;
}

// Whether nothing about an event is worth a closer look.
bool is_ordinary(const Sieve& sieve, TupleTableSlot* event) {
    const varlena* const headers = value_of(event, sieve.headers);
    return value_of(event, sieve.idempotency_key) == nullptr &&
           !is_empty_text(value_of(event, sieve.event_type)) && !is_negative(event, sieve.schema_version) &&
           (headers == nullptr || is_object(headers)) &&
           size_of(value_of(event, sieve.payload)) + size_of(headers) <= no_limit_is_below &&
           are_short(sieve, event) && is_usual_time(event, sieve.occurred_at) &&
           is_usual_time(event, sieve.available_at) &&
           (!sieve.holds_json || is_plain_json(value_of(event, sieve.payload))) &&
           is_handed_out(sieve, event);
}

// Hand the whole call over.
Datum ask_judge(Sieve& sieve, FunctionCallInfo fcinfo) {
    return pg::call([&] {
        if (!OidIsValid(sieve.judge.fn_oid))
            fmgr_info_cxt(find_function("judge_event", fcinfo->flinfo->fn_oid), &sieve.judge,
                          fcinfo->flinfo->fn_mcxt);
        LOCAL_FCINFO(call, 0);
        InitFunctionCallInfoData(*call, &sieve.judge, 0, InvalidOid, fcinfo->context, nullptr);
        const Datum event = FunctionCallInvoke(call);
        fcinfo->isnull = call->isnull;
        return event;
    });
}

}  // namespace

void baton::sift::forget_mark() {
    known_mark = {InvalidOid, 0, 0};
}

extern "C" Datum baton_sift_event(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        if (!CALLED_AS_TRIGGER(fcinfo))
            throw SqlError("sift_event is a trigger function", "39P01", "",
                           "outboxes get it from baton.create_outbox()");
        const auto* const trigger = reinterpret_cast<const TriggerData*>(fcinfo->context);
        if (!TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
            !TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
            throw SqlError("sift_event fires before each row that is inserted", "39P01", "",
                           "outboxes get it from baton.create_outbox()");
        Sieve& sieve = sieve_of(fcinfo, *trigger);
        if (is_publishing_on(fcinfo->flinfo->fn_oid) && is_ordinary(sieve, trigger->tg_trigslot))
            return PointerGetDatum(trigger->tg_trigtuple);
        return ask_judge(sieve, fcinfo);
    });
}
