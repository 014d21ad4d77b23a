#include "stream/immediate.hpp"

#include "owner.hpp"
#include "pg/role.hpp"
#include "pg/spi.hpp"
#include "pg/xact.hpp"

BATON_FUNCTION(baton_is_immediate_refresh);
BATON_FUNCTION(baton_follow_parts_of);

namespace baton::stream {

namespace {

struct OpenChange {
    Change change;
    SubTransactionId opener;
};

std::vector<OpenChange>& open_changes() {
    static auto& all = *new std::vector<OpenChange>;  // never destroyed: nothing of ours runs at exit
    return all;
}

std::vector<Oid>& changed_sources() {
    static auto& all = *new std::vector<Oid>;
    return all;
}

bool refreshing = false;

void at_transaction_event(XactEvent event) noexcept {
    if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE) return;
    open_changes().clear();
    changed_sources().clear();
    refreshing = false;
}

void at_subtransaction_event(SubXactEvent event, SubTransactionId ended, SubTransactionId, void*) {
    if (event == SUBXACT_EVENT_ABORT_SUB)
        std::erase_if(open_changes(), [&](const OpenChange& open) { return open.opener >= ended; });
}

void watch() {
    static const bool watching = [] {
        pg::on_transaction_event(at_transaction_event);
        RegisterSubXactCallback(at_subtransaction_event, nullptr);
        return true;
    }();
    static_cast<void>(watching);
}

// Says for a scope that a refresh is the writer's own.
class Refreshing {
  public:
    Refreshing() noexcept : before_(std::exchange(refreshing, true)) {}
    ~Refreshing() { refreshing = before_; }
    Refreshing(const Refreshing&) = delete;
    Refreshing& operator=(const Refreshing&) = delete;

  private:
    bool before_;
};

// Refresh what reads these sources. As baton's owner: a writer needs no right on stream tables.
void refresh(const std::vector<Oid>& sources, Oid refresher, bool wait) {
    const Datum list = pg::call([&] {
        auto* const values = static_cast<Datum*>(palloc(sizeof(Datum) * sources.size()));
        for (std::size_t i = 0; i < sources.size(); ++i) values[i] = ObjectIdGetDatum(sources[i]);
        return PointerGetDatum(construct_array(values, static_cast<int>(sources.size()), OIDOID, sizeof(Oid),
                                               true, TYPALIGN_INT));
    });
    const Refreshing scope;
    const pg::RestrictedRole role(owner::of_function(refresher));
    pg::Spi spi;
    const std::array<pg::SqlParam, 2> params{{{OIDARRAYOID, list}, {BOOLOID, BoolGetDatum(wait)}}};
    spi.execute("select baton_internal.refresh_immediately($1, $2)", params);
}

std::vector<Oid> oids_in(Datum array) {
    int count = 0;
    const Datum* const values = pg::call([&] {
        Datum* all = nullptr;
        bool* nulls = nullptr;
        deconstruct_array(DatumGetArrayTypeP(array), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &all, &nulls,
                          &count);
        return all;
    });
    std::vector<Oid> list;
    for (int i = 0; i < count; ++i) list.push_back(DatumGetObjectId(values[i]));
    return list;
}

void note_changed(Oid source) {
    auto& sources = changed_sources();
    if (OidIsValid(source) && std::ranges::find(sources, source) == sources.end()) sources.push_back(source);
}

void refresh_unless_open(Oid refresher, bool wait = true) {
    auto& sources = changed_sources();
    if (open_changes().empty() && !sources.empty()) refresh(std::exchange(sources, {}), refresher, wait);
}

}  // namespace

void open_change(const Change& change) {
    watch();
    open_changes().push_back({change, GetCurrentSubTransactionId()});
}

void close_change(const Change& change, Oid source, Oid refresher) {
    watch();
    note_changed(source);
    auto& all = open_changes();
    // The last one: a subtransaction that is rolled back later must find those that it opened.
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](const OpenChange& open) {
        return open.change.table == change.table && open.change.operation == change.operation;
    });
    if (last != all.rend()) all.erase(std::next(last).base());
    refresh_unless_open(refresher);
}

void row_captured(Oid source, Oid refresher) {
    watch();
    note_changed(source);
    refresh_unless_open(refresher);
}

bool is_open(const std::vector<Oid>& tables) {
    return std::ranges::any_of(open_changes(), [&](const OpenChange& open) {
        return std::ranges::find(tables, open.change.table) != tables.end();
    });
}

void follow_parts(Datum sources, Oid refresher) {
    watch();
    {
        const pg::RestrictedRole role(owner::of_function(refresher));
        pg::Spi spi;
        const std::array<pg::SqlParam, 1> params{{{OIDARRAYOID, sources}}};
        spi.execute("select baton_internal.capture_new_parts(s) from pg_catalog.unnest($1) s", params);
    }
    for (const Oid source : oids_in(sources)) note_changed(source);
    refresh_unless_open(refresher, false);
}

ForeignCode::ForeignCode() noexcept : before_(std::exchange(refreshing, false)) {}

ForeignCode::~ForeignCode() {
    refreshing = before_;
}

}  // namespace baton::stream

// baton_internal.is_immediate_refresh(): whether the present statement is part of a writer's statement.
extern "C" Datum baton_is_immediate_refresh(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(baton::stream::refreshing);
}

// baton_internal.follow_parts_of(sources)
extern "C" Datum baton_follow_parts_of(PG_FUNCTION_ARGS) {
    using namespace baton;
    return pg::enter([&]() -> Datum {
        stream::follow_parts(PG_GETARG_DATUM(0), fcinfo->flinfo->fn_oid);
        PG_RETURN_VOID();
    });
}
