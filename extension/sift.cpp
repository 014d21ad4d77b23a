// baton_internal.sift_event(): the row trigger of an outbox. Lets ordinary events pass, and asks
// baton_internal.judge_event() about all others, so that what an outbox takes in is decided in one place.

#include "pg/guard.hpp"

BATON_FUNCTION(baton_sift_event);

using namespace baton;

namespace {

constexpr std::size_t no_limit_is_below = 65536;  // as in judge_event()

// Where the columns are, and the judge: looked up once per statement.
struct Sieve {
    AttrNumber event_type;
    AttrNumber schema_version;
    AttrNumber payload;
    AttrNumber headers;
    AttrNumber idempotency_key;
    FmgrInfo judge;
};

AttrNumber column(TupleDesc shape, const char* name) {
    const int number = SPI_fnumber(shape, name);
    if (number <= 0) elog(ERROR, "an outbox has no column %s", name);
    return static_cast<AttrNumber>(number);
}

// Find the judge, which stands in the schema of the sieve.
Oid find_judge(Oid sieve) {
    oidvector* const none = buildoidvector(nullptr, 0);
    const Oid judge = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("judge_event"),
                                      PointerGetDatum(none), ObjectIdGetDatum(get_func_namespace(sieve)));
    if (!OidIsValid(judge)) elog(ERROR, "judge_event() is missing");
    return judge;
}

Sieve& sieve_of(FunctionCallInfo fcinfo, TupleDesc shape) {
    FmgrInfo& self = *fcinfo->flinfo;
    if (self.fn_extra == nullptr)
        pg::call([&] {
            auto* const made = static_cast<Sieve*>(MemoryContextAllocZero(self.fn_mcxt, sizeof(Sieve)));
            made->event_type = column(shape, "event_type");
            made->schema_version = column(shape, "schema_version");
            made->payload = column(shape, "payload");
            made->headers = column(shape, "headers");
            made->idempotency_key = column(shape, "idempotency_key");
            self.fn_extra = made;
        });
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

// Whether nothing about an event is worth a closer look.
bool is_ordinary(const Sieve& sieve, TupleTableSlot* event) {
    const varlena* const headers = value_of(event, sieve.headers);
    return value_of(event, sieve.idempotency_key) == nullptr &&
           !is_empty_text(value_of(event, sieve.event_type)) && !is_negative(event, sieve.schema_version) &&
           (headers == nullptr || is_object(headers)) &&
           size_of(value_of(event, sieve.payload)) + size_of(headers) <= no_limit_is_below;
}

// Hand the whole call over.
Datum ask_judge(Sieve& sieve, FunctionCallInfo fcinfo) {
    return pg::call([&] {
        if (!OidIsValid(sieve.judge.fn_oid))
            fmgr_info_cxt(find_judge(fcinfo->flinfo->fn_oid), &sieve.judge, fcinfo->flinfo->fn_mcxt);
        LOCAL_FCINFO(call, 0);
        InitFunctionCallInfoData(*call, &sieve.judge, 0, InvalidOid, fcinfo->context, nullptr);
        const Datum event = FunctionCallInvoke(call);
        fcinfo->isnull = call->isnull;
        return event;
    });
}

}  // namespace

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
        Sieve& sieve = sieve_of(fcinfo, RelationGetDescr(trigger->tg_relation));
        if (is_ordinary(sieve, trigger->tg_trigslot)) return PointerGetDatum(trigger->tg_trigtuple);
        return ask_judge(sieve, fcinfo);
    });
}
