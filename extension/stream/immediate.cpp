#include "stream/immediate.hpp"

#include "owner.hpp"
#include "pg/role.hpp"
#include "pg/spi.hpp"
#include "pg/xact.hpp"

BATON_FUNCTION(baton_is_immediate_refresh);

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

bool cannot_be_told_apart = false;
bool refreshing = false;

void at_transaction_event(XactEvent event) noexcept {
    if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE) return;
    open_changes().clear();
    changed_sources().clear();
    cannot_be_told_apart = false;
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

// A trigger that a foreign key fires runs one level deeper than the end of what it does.
bool is_same(const Change& open, const Change& closed) {
    return open.table == closed.table && open.operation == closed.operation && open.depth >= closed.depth;
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
void refresh(const std::vector<Oid>& sources, Oid refresher) {
    const Datum list = pg::call([&] {
        auto* const values = static_cast<Datum*>(palloc(sizeof(Datum) * sources.size()));
        for (std::size_t i = 0; i < sources.size(); ++i) values[i] = ObjectIdGetDatum(sources[i]);
        return PointerGetDatum(construct_array(values, static_cast<int>(sources.size()), OIDOID, sizeof(Oid),
                                               true, TYPALIGN_INT));
    });
    const Refreshing scope;
    const pg::RestrictedRole role(owner::of_function(refresher));
    pg::Spi spi;
    const std::array<pg::SqlParam, 2> params{
        {{OIDARRAYOID, list}, {BOOLOID, BoolGetDatum(cannot_be_told_apart)}}};
    spi.execute("select baton_internal.refresh_immediately($1, $2)", params);
}

}  // namespace

void open_change(const Change& change) {
    watch();
    auto& all = open_changes();
    cannot_be_told_apart |= std::ranges::any_of(all, [&](const OpenChange& open) {
        return open.change.table == change.table && open.change.operation == change.operation &&
               open.change.depth == change.depth;
    });
    all.push_back({change, GetCurrentSubTransactionId()});
}

void close_change(const Change& change, Oid source, Oid refresher) {
    watch();
    auto& sources = changed_sources();
    if (OidIsValid(source) && std::ranges::find(sources, source) == sources.end()) sources.push_back(source);
    std::erase_if(open_changes(), [&](const OpenChange& open) { return is_same(open.change, change); });
    if (open_changes().empty() && !sources.empty()) refresh(std::exchange(sources, {}), refresher);
}

}  // namespace baton::stream

// baton_internal.is_immediate_refresh(): whether the present statement is part of a writer's statement.
extern "C" Datum baton_is_immediate_refresh(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(baton::stream::refreshing);
}
