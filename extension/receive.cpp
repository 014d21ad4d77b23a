// baton_internal.receive_message(): receiving by name. SQL says which function stores messages of an inbox
// (baton_internal.receiving()); the session remembers it until some inbox was made, changed or dropped, and
// calls it without a statement in between.

#include <optional>

#include "pg/guard.hpp"
#include "pg/spi.hpp"

BATON_FUNCTION(baton_receive);
BATON_FUNCTION(baton_announce_change);

using namespace baton;

namespace {

// The arguments, as receive() has them; the inbox's own function takes those between name and path.
constexpr int inbox_argument = 0;
constexpr int path_argument = 11;
constexpr int argument_count = 12;
constexpr int message_arguments = argument_count - 2;

struct Receiving {
    std::string inbox;
    std::string path;
    FmgrInfo* store;  // null where only the general way leads
};

auto& known() {
    static auto& all = *new std::vector<Receiving>;  // never destroyed: nothing of ours runs at exit
    return all;
}

Oid inboxes = InvalidOid;
bool is_stale = true;
MemoryContext memory = nullptr;  // of what is known
int running = 0;                 // calls: the code that a call runs may receive, too

class Running {
  public:
    Running() { ++running; }
    ~Running() { --running; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
};

void forget(Datum, Oid relation) {
    if (relation == InvalidOid || relation == inboxes) is_stale = true;
}

void forget_functions(Datum, int, uint32) {
    is_stale = true;
}

std::string_view bytes_of(FunctionCallInfo fcinfo, int argument) {
    const auto* const value = reinterpret_cast<const varlena*>(
        pg::call([&] { return PG_DETOAST_DATUM_PACKED(fcinfo->args[argument].value); }));
    return {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

// Forget everything when some inbox has changed. What is running stays in memory.
void refresh() {
    static const bool watching = [] {
        CacheRegisterRelcacheCallback(forget, Datum{0});
        CacheRegisterSyscacheCallback(PROCOID, forget_functions, Datum{0});
        return true;
    }();
    if (!watching || !is_stale) return;
    known().clear();
    is_stale = false;
    pg::call([] {
        if (memory != nullptr && running == 0) MemoryContextDelete(memory);
        memory = AllocSetContextCreate(TopMemoryContext, "baton inboxes", ALLOCSET_SMALL_SIZES);
        inboxes = get_relname_relid("inboxes", get_namespace_oid("baton", false));
    });
}

FmgrInfo* ask(FunctionCallInfo fcinfo) {
    pg::Spi spi;
    spi.execute("select baton_internal.receiving($1, $2)",
                std::array{pg::SqlParam{TEXTOID, fcinfo->args[inbox_argument].value,
                                        fcinfo->args[inbox_argument].isnull},
                           pg::SqlParam{NAMEARRAYOID, fcinfo->args[path_argument].value,
                                        fcinfo->args[path_argument].isnull}});
    if (spi.empty()) return nullptr;
    const auto function = spi.datum(0, 1);
    if (!function) return nullptr;
    return pg::call([&] {
        auto* const made = static_cast<FmgrInfo*>(MemoryContextAllocZero(memory, sizeof(FmgrInfo)));
        fmgr_info_cxt(DatumGetObjectId(*function), made, memory);
        return made;
    });
}

FmgrInfo* store_of(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(inbox_argument) || PG_ARGISNULL(path_argument)) return nullptr;
    refresh();
    const std::string_view inbox = bytes_of(fcinfo, inbox_argument);
    const std::string_view path = bytes_of(fcinfo, path_argument);
    for (const auto& one : known())
        if (one.inbox == inbox && one.path == path) return one.store;
    Receiving found{std::string(inbox), std::string(path), ask(fcinfo)};
    known().push_back(std::move(found));
    return known().back().store;
}

// SQL stores what has no function of its own, and refuses what is no inbox.
Datum receive_generally(FunctionCallInfo fcinfo) {
    constexpr std::array<Oid, argument_count> types{TEXTOID, TEXTOID, TEXTOID,        JSONBOID,
                                                    TEXTOID, TEXTOID, JSONBOID,       TEXTOID,
                                                    INT8OID, INT4OID, TIMESTAMPTZOID, NAMEARRAYOID};
    std::vector<pg::SqlParam> params;
    for (std::size_t i = 0; i < argument_count; ++i)
        params.push_back({types[i], fcinfo->args[i].value, fcinfo->args[i].isnull});
    pg::Spi spi;
    spi.execute("select baton_internal.receive_generally($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                params);
    return spi.keep(0, 1);
}

}  // namespace

extern "C" Datum baton_receive(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        FmgrInfo* const store = store_of(fcinfo);
        if (store == nullptr) return receive_generally(fcinfo);
        const Running counted;
        return pg::call([&] {
            LOCAL_FCINFO(call, message_arguments);
            InitFunctionCallInfoData(*call, store, message_arguments, PG_GET_COLLATION(), nullptr, nullptr);
            for (int i = 0; i < message_arguments; ++i) call->args[i] = fcinfo->args[i + 1];
            const Datum outcome = FunctionCallInvoke(call);
            fcinfo->isnull = call->isnull;
            return outcome;
        });
    });
}

extern "C" Datum baton_announce_change(PG_FUNCTION_ARGS) {
    return pg::enter([&]() -> Datum {
        if (!CALLED_AS_TRIGGER(fcinfo))
            throw SqlError("announce_change is a trigger function", "39P01", "",
                           "baton's own tables have it");
        const auto* const trigger = reinterpret_cast<const TriggerData*>(fcinfo->context);
        pg::call([&] { CacheInvalidateRelcacheByRelid(RelationGetRelid(trigger->tg_relation)); });
        return PointerGetDatum(nullptr);
    });
}
