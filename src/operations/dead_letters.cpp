// Dead letters of groups, inboxes and adopted outboxes alike. A letter's name says which it is: 17 of a
// group, inbox:3:abc of an inbox, outbox:2:77 of an adopted table (sql/all_dead_letters.sql).

#include <map>
#include <set>

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

using postgres::Connection;

const Parameter letter{"letter", Kind::text, "name of a dead letter, as the list has it", true};
const Parameter letters{"letters", Kind::texts, "names of dead letters, as the list has them", true};
const Parameter missing_ok{"missing_ok", Kind::boolean,
                           "pass over letters that are gone, instead of refusing all", false, false};

const Shape letter_shape{
    {"letter", Kind::text, "name"},
    {"kind", Kind::text, "group, inbox or outbox (adopted)"},
    {"place", Kind::text, "which group, inbox or outbox"},
    {"event_offset", Kind::integer, "offset of the event"},
    {"event_id", Kind::text, "id of the event"},
    {"tenant_id", Kind::text, "tenant"},
    {"event_type", Kind::text, "what happened"},
    {"aggregate_id", Kind::text, "what it is about"},
    {"key", Kind::text, "what it is ordered by"},
    {"attempts", Kind::integer, "attempts that failed"},
    {"error", Kind::text, "why the last one failed"},
    {"died_at", Kind::time, "when it was given up"},
    {"payload", Kind::json, "what it says"},
    {"headers", Kind::json, "headers"},
    {"failures", Kind::json, "the latest failed attempts: at, attempt, error; not of adopted tables"},
    {"cursor", Kind::text, "where to go on behind it"},
};

// Where letters belong: a group, or an inbox or an adopted outbox by its number.
struct Place {
    std::string kind;  // group, inbox, outbox
    std::string number;
    auto operator<=>(const Place&) const = default;
};

bool is_number(const std::string& text) {
    return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

std::pair<Place, std::string> parse(const std::string& name) {
    if (is_number(name)) return {{"group", ""}, name};
    const auto first = name.find(':');
    const auto second = first == std::string::npos ? first : name.find(':', first + 1);
    const std::string kind = name.substr(0, first);
    if (second != std::string::npos && (kind == "inbox" || kind == "outbox")) {
        const std::string number = name.substr(first + 1, second - first - 1);
        if (is_number(number) && number.size() < 10) return {{kind, number}, name.substr(second + 1)};
    }
    throw UsageError("\"" + name + "\" is no name of a dead letter",
                     "the list of dead letters has them: baton dead list");
}

std::map<Place, std::set<std::string>> by_place(const Json& names) {
    if (names.empty()) throw UsageError("letters is empty", "name at least one dead letter");
    if (names.size() > 1000) throw UsageError("more than 1000 letters at once", "do it in several calls");
    std::map<Place, std::set<std::string>> sorted;
    for (const auto& name : names) {
        auto [place, id] = parse(name.get<std::string>());
        sorted[place].insert(std::move(id));
    }
    return sorted;
}

// The name of an inbox or an adopted outbox by its number.
std::string name_of_place(Connection& db, const Place& place) {
    const auto found =
        db.query(place.kind == "inbox"
                     ? "select format('%I.%I', schema_name, name) from baton.inboxes where id = $1::int"
                     : "select format('%I.%I', schema_name, table_name) from baton.adopted_outboxes where "
                       "outbox_id = $1::int",
                 {place.number});
    if (found.empty()) throw NotFound("there is no " + place.kind + " with the number " + place.number);
    return found.text(0, 0);
}

[[noreturn]] void refuse_adopted(const std::string& name, const std::string& what) {
    throw UsageError("a dead letter of the adopted table " + name + " cannot be " + what + " here",
                     "change its row in the table itself, which belongs to its application");
}

std::string array_of(const std::set<std::string>& ids) {
    return postgres::array_literal(std::vector<std::string>(ids.begin(), ids.end()));
}

// Replay letters of one place; returns how many there were still.
long long replay_in(Connection& db, const Place& place, const std::set<std::string>& ids,
                    const postgres::Param& or_less) {
    if (place.kind == "group")
        return db
            .query("select baton.replay_dead_letters($1::bigint[], missing_ok => $2::boolean)",
                   {array_of(ids), or_less})
            .number(0, 0);
    const std::string name = name_of_place(db, place);
    return db
        .query(place.kind == "inbox" ? "select baton.replay_inbox_messages($2, $1::text[], dead_only => true)"
                                     : "select count(*) from baton.replay_adopted($2, $1::text[])",
               {array_of(ids), name})
        .number(0, 0);
}

std::string replay(Connection& db, const Arguments& given) {
    long long replayed = 0;
    for (const auto& [place, ids] : by_place(given["letters"])) {
        const long long there = replay_in(db, place, ids, given.param("missing_ok"));
        if (there < static_cast<long long>(ids.size()) && !given["missing_ok"].get<bool>())
            throw NotFound("some of these dead letters of " + name_of_place(db, place) + " are gone",
                           "nothing was replayed; list them anew, or pass over those with missing_ok");
        replayed += there;
    }
    return Json{{"replayed", replayed}}.dump();
}

std::string discard(Connection& db, const Arguments& given) {
    const auto sorted = by_place(given["letters"]);
    for (const auto& [place, _] : sorted)
        if (place.kind == "outbox") refuse_adopted(name_of_place(db, place), "discarded");
    long long discarded = 0;
    for (const auto& [place, ids] : sorted) {
        postgres::Params params{array_of(ids), given.param("reason"), given.param("missing_ok")};
        if (place.kind == "inbox") params.push_back(name_of_place(db, place));
        discarded +=
            db.query(
                  place.kind == "group"
                      ? "select baton.discard_dead_letters($1::bigint[], $2, missing_ok => $3::boolean)"
                      : "select baton.discard_inbox_messages($4, $1::text[], $2, missing_ok => $3::boolean)",
                  params)
                .number(0, 0);
    }
    return Json{{"discarded", discarded}}.dump();
}

std::string show(Connection& db, const Arguments& given) {
    parse(given.text("letter"));
    const std::string found =
        row_of(db, "select d.* from baton.all_dead_letters(named => $1) d", {given.param("letter")});
    if (found.empty())
        throw NotFound("there is no dead letter " + given.text("letter"),
                       "it may have been replayed already");
    return found;
}

std::string edit(Connection& db, const Arguments& given) {
    const auto [place, id] = parse(given.text("letter"));
    const auto payload = given.param("payload");
    const auto headers = given.param("headers");
    if (place.kind == "outbox") refuse_adopted(name_of_place(db, place), "edited");
    if (place.kind == "group")
        db.query("select baton.edit_dead_letter($1::bigint, $2::jsonb, $3::jsonb)", {id, payload, headers});
    else
        db.query("select baton.edit_inbox_message($1, $2, $3::jsonb, $4::jsonb)",
                 {name_of_place(db, place), id, payload, headers});
    return show(db, given);
}

}  // namespace

std::vector<Operation> dead_letter_operations() {
    const auto changes = std::chrono::minutes(2);
    return {
        {.name = "list_dead_letters",
         .method = "GET",
         .path = "/dead-letters",
         .about = "events and messages that were given up, the latest first",
         .parameters = {{"place", Kind::text, "only those of this group, inbox or adopted outbox"},
                        {"kind",
                         Kind::text,
                         "only those of groups, inboxes or adopted outboxes",
                         false,
                         nullptr,
                         {"group", "inbox", "outbox"}},
                        {"event_type", Kind::text, "only this type"},
                        {"since", Kind::time, "only those given up from this moment on"},
                        {"until", Kind::time, "only those given up before this moment"},
                        {"error", Kind::text,
                         "only those with this in their error, in small letters or capitals"},
                        {"key", Kind::text, "only this key"},
                        {"tenant", Kind::text, "only this tenant"}},
         .answer = Answer::page,
         .shape = letter_shape,
         .sql = "select d.* from baton.all_dead_letters($1, $2, $3, $9, $10::int, since => $4::timestamptz, "
                "until "
                "=> $5::timestamptz, error_part => $6, in_key => $7, tenant => $8) d"},
        {.name = "show_dead_letter",
         .method = "GET",
         .path = "/dead-letters/{letter}",
         .about = "one dead letter",
         .parameters = {letter},
         .shape = letter_shape,
         .work = show},
        {.name = "edit_dead_letter",
         .method = "PUT",
         .path = "/dead-letters/{letter}",
         .right = Right::operate,
         .about = "correct a dead letter; the audit trail keeps what it was",
         .parameters = {letter,
                        {"payload", Kind::json, "what it is to say"},
                        {"headers", Kind::json, "its headers, an object"}},
         .shape = letter_shape,
         .work = edit,
         .limit = changes},
        {.name = "replay_dead_letters",
         .method = "POST",
         .path = "/dead-letters/replay",
         .right = Right::operate,
         .about = "deliver dead letters again, with all their attempts",
         .parameters = {letters, missing_ok},
         .shape = {{"replayed", Kind::integer, "how many"}},
         .work = replay,
         .limit = changes},
        {.name = "discard_dead_letters",
         .method = "POST",
         .path = "/dead-letters/discard",
         .right = Right::operate,
         .about = "give up dead letters for good; the audit trail keeps them",
         .parameters = {letters, {"reason", Kind::text, "why", true}, missing_ok},
         .shape = {{"discarded", Kind::integer, "how many"}},
         .work = discard,
         .limit = changes},
    };
}

}  // namespace baton::operations
