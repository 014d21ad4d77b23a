// baton_internal.publish_payload(): publishing by name. SQL writes the statement for an outbox and a type of
// payload (baton_internal.publishing()); the session keeps its plan, as long as the outbox's table stays as
// it is. Whatever is not the plain case is left to SQL.

#include "pg/guard.hpp"
#include "pg/names.hpp"
#include "pg/spi.hpp"

BATON_FUNCTION(baton_publish);

using namespace baton;

namespace {

// The arguments, as publish() has them.
constexpr int outbox_argument = 0;
constexpr int type_argument = 1;
constexpr int payload_argument = 2;
constexpr int tenant_argument = 8;
constexpr int key_argument = 12;
constexpr int argument_count = 17;
constexpr int value_count = argument_count - 1;  // of the statement: all but the outbox

struct Publishing {
    Oid outbox;
    Oid payload_type;
    SPIPlanPtr plan;
    bool is_stale;  // the table was altered, and may have another name now
};

auto& known() {
    static auto& all = *new std::vector<Publishing>;  // never destroyed: nothing of ours runs at exit
    return all;
}

// How many calls are running: a trigger of an outbox may publish, too, and nobody frees a plan under another.
int running = 0;

class Running {
  public:
    Running() { ++running; }
    ~Running() { --running; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
};

void forget(Datum, Oid relation) {
    for (auto& one : known())
        if (relation == InvalidOid || one.outbox == relation) one.is_stale = true;
}

void forget_all(Datum, int, uint32) {
    forget(Datum{0}, InvalidOid);
}

void free_stale() {
    if (running > 0) return;
    auto& all = known();
    for (std::size_t i = 0; i < all.size();) {
        if (all[i].is_stale) {
            SPI_freeplan(all[i].plan);
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
            ++i;
        }
    }
}

// The types of the statement's values.
std::array<Oid, value_count> types_with(Oid payload) {
    return {TEXTOID, payload, TEXTOID, TEXTOID, TEXTOID, TEXTOID,        JSONBOID,       TEXTOID,
            TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID, UUIDOID};
}

// Let SQL write the statement and prepare it; null when the payload does not fit the outbox.
SPIPlanPtr prepare(pg::Spi& spi, Oid outbox, Oid payload_type) {
    spi.execute("select baton_internal.publishing($1, $2)",
                std::array{pg::SqlParam{REGCLASSOID, ObjectIdGetDatum(outbox)},
                           pg::SqlParam{REGTYPEOID, ObjectIdGetDatum(payload_type)}});
    const auto statement = spi.text(0, 1);
    if (!statement) return nullptr;
    auto types = types_with(payload_type);
    return pg::call([&] {
        const SPIPlanPtr plan = SPI_prepare(statement->c_str(), value_count, types.data());
        if (plan == nullptr) elog(ERROR, "cannot prepare: %s", SPI_result_code_string(SPI_result));
        if (SPI_keepplan(plan) != 0) elog(ERROR, "cannot keep a plan");
        return plan;
    });
}

SPIPlanPtr plan_of(pg::Spi& spi, Oid outbox, Oid payload_type) {
    static const bool watching = [] {
        CacheRegisterRelcacheCallback(forget, Datum{0});
        CacheRegisterSyscacheCallback(NAMESPACEOID, forget_all, Datum{0});  // a schema with another name
        return true;
    }();
    (void)watching;
    for (const auto& one : known())
        if (one.outbox == outbox && one.payload_type == payload_type && !one.is_stale) return one.plan;
    free_stale();
    const SPIPlanPtr plan = prepare(spi, outbox, payload_type);
    if (plan != nullptr) known().push_back({outbox, payload_type, plan, false});
    return plan;
}

// Find the table that a name means to the caller; SQL looks at names that need a closer look, and refuses.
Oid find_outbox(pg::Spi& spi, FunctionCallInfo fcinfo) {
    if (!PG_ARGISNULL(outbox_argument)) {
        const text* const name = pg::call([&] { return PG_GETARG_TEXT_PP(outbox_argument); });
        const Oid found = pg::plain_table({VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)});
        if (OidIsValid(found)) return found;
    }
    spi.execute("select baton_internal.resolve_table($1)",
                std::array{pg::SqlParam{TEXTOID, fcinfo->args[outbox_argument].value,
                                        fcinfo->args[outbox_argument].isnull}});
    return DatumGetObjectId(spi.datum(0, 1).value());
}

// The event that used an idempotency key before, which is why this one gave no row.
std::optional<Datum> first_of_key(pg::Spi& spi, FunctionCallInfo fcinfo, Oid outbox) {
    const auto& tenant = fcinfo->args[tenant_argument];
    const auto& key = fcinfo->args[key_argument];
    spi.execute(
        "select baton_internal.find_idempotent($1, coalesce($2, baton_internal.session_tenant()), $3)",
        std::array{pg::SqlParam{REGCLASSOID, ObjectIdGetDatum(outbox)},
                   pg::SqlParam{TEXTOID, tenant.value, tenant.isnull},
                   pg::SqlParam{TEXTOID, key.value, key.isnull}});
    return spi.datum(0, 1);
}

struct Values {
    std::array<Datum, argument_count> values;
    std::array<char, argument_count> nulls;
};

Values values_of(FunctionCallInfo fcinfo) {
    Values all;
    for (std::size_t i = 0; i < argument_count; ++i) {
        all.values[i] = fcinfo->args[i].value;
        all.nulls[i] = fcinfo->args[i].isnull ? 'n' : ' ';
    }
    return all;
}

// SQL refuses what does not fit, and looks for a table that was just renamed.
std::optional<Datum> publish_generally(pg::Spi& spi, FunctionCallInfo fcinfo, Oid outbox, Oid payload_type) {
    std::vector<pg::SqlParam> params{{REGCLASSOID, ObjectIdGetDatum(outbox)}};
    const auto types = types_with(payload_type);
    for (std::size_t i = 1; i < argument_count; ++i)
        params.push_back({types[i - 1], fcinfo->args[i].value, fcinfo->args[i].isnull});
    spi.execute(
        "select baton_internal.publish_generally($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
        "$14, "
        "$15, $16, $17)",
        params);
    return spi.datum(0, 1);
}

std::optional<Datum> publish(FunctionCallInfo fcinfo) {
    const Oid payload_type = pg::call([&] { return get_fn_expr_argtype(fcinfo->flinfo, payload_argument); });
    pg::Spi spi;
    const Oid outbox = find_outbox(spi, fcinfo);
    const SPIPlanPtr plan = PG_ARGISNULL(type_argument) ? nullptr : plan_of(spi, outbox, payload_type);
    if (plan == nullptr) return publish_generally(spi, fcinfo, outbox, payload_type);
    const Running counted;
    Values all = values_of(fcinfo);
    const auto id = pg::call([&] {
        const int outcome = SPI_execute_plan(plan, all.values.data() + 1, all.nulls.data() + 1, false, 0);
        if (outcome != SPI_OK_INSERT_RETURNING)
            elog(ERROR, "an event was not inserted: %s", SPI_result_code_string(outcome));
        bool is_null = true;
        return SPI_processed == 1
                   ? DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null))
                   : std::int64_t{0};
    });
    if (id != 0) return Int64GetDatum(id);
    if (!PG_ARGISNULL(key_argument))
        if (const auto first = first_of_key(spi, fcinfo, outbox)) return first;
    return publish_generally(spi, fcinfo, outbox, payload_type);  // renamed while the statement waited
}

}  // namespace

extern "C" Datum baton_publish(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        const auto id = publish(fcinfo);
        if (!id) PG_RETURN_NULL();
        return *id;
    });
}
