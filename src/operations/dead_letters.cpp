// Dead letters of groups, inboxes and adopted outboxes alike. A letter's name says which it is: 17 of a
// group, inbox:3:abc of an inbox, outbox:2:77 of an adopted table (sql/all_dead_letters.sql).

#include <map>

#include "operations/catalog.hpp"

namespace baton::operations {

namespace {

using postgres::Connection;

const Parameter letter{"letter", Kind::text, "name of a dead letter, as the list has it", true};
const Parameter letters{"letters", Kind::texts, "names of dead letters, as the list has them", true};

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

std::map<Place, std::vector<std::string>> by_place(const Json& names) {
    if (names.empty()) throw UsageError("letters is empty", "name at least one dead letter");
    if (names.size() > 1000) throw UsageError("more than 1000 letters at once", "do it in several calls");
    std::map<Place, std::vector<std::string>> sorted;
    for (const auto& name : names) {
        auto [place, id] = parse(name.get<std::string>());
        sorted[place].push_back(std::move(id));
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

std::string replay(Connection& db, const Arguments& given) {
    long long replayed = 0;
    for (const auto& [place, ids] : by_place(given["letters"])) {
        const std::string array = postgres::array_literal(ids);
        const std::string call = place.kind == "group" ? "baton.replay_dead_letters($1::bigint[])"
                                 : place.kind == "inbox"
                                     ? "baton.replay_inbox_messages($2, $1::text[])"
                                     : "(select count(*) from baton.replay_adopted($2, $1::text[]))";
        const postgres::Params params = place.kind == "group"
                                            ? postgres::Params{array}
                                            : postgres::Params{array, name_of_place(db, place)};
        replayed += db.query("select " + call, params).number(0, 0);
    }
    return Json{{"replayed", replayed}}.dump();
}

std::string discard(Connection& db, const Arguments& given) {
    const auto sorted = by_place(given["letters"]);
    for (const auto& [place, _] : sorted)
        if (place.kind == "outbox") refuse_adopted(name_of_place(db, place), "discarded");
    long long discarded = 0;
    for (const auto& [place, ids] : sorted) {
        const std::string array = postgres::array_literal(ids);
        discarded +=
            (place.kind == "group" ? db.query("select baton.discard_dead_letters($1::bigint[], $2)",
                                              {array, given.param("reason")})
                                   : db.query("select baton.discard_inbox_messages($3, $1::text[], $2)",
                                              {array, given.param("reason"), name_of_place(db, place)}))
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
                        {"event_type", Kind::text, "only this type"}},
         .answer = Answer::page,
         .shape = letter_shape,
         .sql = "select d.* from baton.all_dead_letters($1, $2, $3, $4, $5::int) d"},
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
         .parameters = {letters},
         .shape = {{"replayed", Kind::integer, "how many"}},
         .work = replay,
         .limit = changes},
        {.name = "discard_dead_letters",
         .method = "POST",
         .path = "/dead-letters/discard",
         .right = Right::operate,
         .about = "give up dead letters for good; the audit trail keeps them",
         .parameters = {letters, {"reason", Kind::text, "why", true}},
         .shape = {{"discarded", Kind::integer, "how many"}},
         .work = discard,
         .limit = changes},
    };
}

}  // namespace baton::operations
