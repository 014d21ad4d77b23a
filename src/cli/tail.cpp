// baton tail: follow an outbox, a group or an inbox.
//
//   an outbox  every event when it is committed; late transactions come late, and come
//   a group    every event when the group has settled it, or failed with it
//   an inbox   every message when it comes, and when its state changes

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "baton/error.hpp"
#include "cli/operate.hpp"
#include "cli/stop_signal.hpp"

namespace baton::cli {

namespace {

struct TailAsked : Asked {
    std::string name, of, type, key, since, tenant, state;
    int lines = 10;
    bool once = false;
};

// An item of an answer and its payload, as the server wrote them: numbers keep all their digits.
struct Item {
    std::string text, payload;
};

std::vector<Item> items_of(Operator& with, const std::string& answer) {
    const auto rows = with.db().query(
        "select e::text, coalesce(e -> 'payload', 'null')::text from json_array_elements($1::json -> "
        "'items') e",
        {answer});
    std::vector<Item> items;
    for (int row = 0; row < rows.rows(); ++row) items.push_back({rows.text(row, 0), rows.text(row, 1)});
    return items;
}

// A payload in one line. Between the strings of JSON a line's end is a space like any other, and in them
// there is none.
std::string payload_line(const Json& parsed, std::string payload) {
    if (!parsed.is_structured() && !parsed.is_number()) return show(parsed);
    std::replace_if(
        payload.begin(), payload.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
    return harmless(payload);
}

// One line for people; or the JSON itself, one object per line.
void tell(const TailAsked& asked, const Screen& screen, const std::string& raw,
          const std::vector<std::pair<std::string, Tone>>& words) {
    if (asked.json) {
        std::cout << raw << "\n";
    } else {
        std::string line;
        for (const auto& [text, tone] : words)
            if (!text.empty()) line += (line.empty() ? "" : "  ") + toned(screen, tone, text);
        std::cout << line << "\n";
    }
    std::cout << std::flush;
}

std::string moment(const Json& time) {
    const std::string text = show(time);
    return text.size() >= 23 ? text.substr(11, 12) : text;
}

void tell_event(const TailAsked& asked, const Screen& screen, const Item& item, const std::string& state = {},
                const std::string& error = {}) {
    const Tone tone = state == "dead"                          ? Tone::bad
                      : state == "retry" || state == "blocked" ? Tone::warning
                                                               : Tone::good;
    const Json event = Json::parse(item.text);
    tell(asked, screen, item.text,
         {{moment(event["occurred_at"]), Tone::faint},
          {state, tone},
          {show(event["offset"]), Tone::plain},
          {show(event["event_type"]), Tone::strong},
          {show(event["key"]), Tone::plain},
          {error.empty() ? payload_line(event["payload"], item.payload) : harmless(error), Tone::faint}});
}

Json filter_of(const TailAsked& asked, const std::string& outbox) {
    Json arguments{{"outbox", outbox}};
    if (!asked.type.empty()) arguments["event_type"] = asked.type;
    if (!asked.key.empty()) arguments["key"] = asked.key;
    return arguments;
}

bool is_wanted(const TailAsked& asked, const Json& event) {
    return asked.tenant.empty() || event["tenant_id"] == asked.tenant;
}

// What to begin with, the oldest first, and where to go on.
struct Beginning {
    std::vector<Item> events;
    std::set<long long> offsets;  // of the events; what comes behind the cursor may have some again
    Json cursor;
};

// A time, and not how long ago it is.
std::string moment_of(Operator& with, const std::string& since) {
    const auto ago = operations::seconds_ago(since);
    return ago ? with.db().value("select clock_timestamp() - make_interval(secs => $1::float8)",
                                 {std::to_string(*ago)})
               : since;
}

// The events since a time, or the last ones of a tenant: searched for backwards, a page at a time.
Beginning begin_in_the_past(const TailAsked& asked, Operator& with, const std::string& outbox) {
    constexpr std::size_t most = 10'000;
    Beginning begin;
    begin.cursor = with.look("tail_events", {{"outbox", outbox}, {"limit", 1}})["next"];
    const auto given = [](const std::string& text) { return text.empty() ? postgres::Param(nullptr) : text; };
    const auto since = given(asked.since.empty() ? "" : moment_of(with, asked.since));
    const std::size_t wanted = asked.since.empty() ? static_cast<std::size_t>(asked.lines) : most;
    postgres::Param before = nullptr;
    for (std::size_t looked_at = 0; looked_at < 10 * most && begin.events.size() < wanted;) {
        const auto rows = with.db().query(
            "select row_to_json(e)::text, coalesce(e.payload, 'null')::text from "
            "baton.search_events($1::text::regclass, $2, $3, $4::timestamptz, null, $5::bigint, 1000) e",
            {outbox, given(asked.type), given(asked.key), since, before});
        for (int row = 0; row < rows.rows() && begin.events.size() < wanted; ++row) {
            const Json event = Json::parse(rows.text(row, 0));
            before = event["offset"].dump();
            if (!is_wanted(asked, event)) continue;
            begin.events.push_back({rows.text(row, 0), rows.text(row, 1)});
            begin.offsets.insert(event["offset"].get<long long>());
        }
        looked_at += static_cast<std::size_t>(rows.rows());
        if (rows.rows() < 1000) break;
    }
    std::reverse(begin.events.begin(), begin.events.end());
    return begin;
}

// What was committed since the last look; at first what to begin with.
class Commits {
  public:
    Commits(const TailAsked& asked, Operator& with, std::string outbox)
        : asked_(asked), with_(with), outbox_(std::move(outbox)), arguments_(filter_of(asked, outbox_)) {
        arguments_["limit"] = asked.lines;
    }

    std::vector<Item> take() {
        if (first_ && (!asked_.since.empty() || !asked_.tenant.empty())) {
            auto begin = begin_in_the_past(asked_, with_, outbox_);
            told_ = std::move(begin.offsets);
            go_on(std::move(begin.cursor));
            return std::move(begin.events);
        }
        const std::string answer = with_.ask("tail_events", arguments_);
        go_on(Json::parse(answer)["next"]);
        std::vector<Item> events = items_of(with_, answer);
        std::erase_if(events, [this](const Item& item) {
            const Json event = Json::parse(item.text);
            return !is_wanted(asked_, event) || told_.erase(event["offset"].get<long long>()) > 0;
        });
        return events;
    }

  private:
    void go_on(Json cursor) {
        first_ = false;
        arguments_["after"] = std::move(cursor);
        arguments_["limit"] = 1000;
    }

    const TailAsked& asked_;
    Operator& with_;
    const std::string outbox_;
    Json arguments_;
    std::set<long long> told_;
    bool first_ = true;
};

void follow_outbox(const TailAsked& asked, Operator& with, const StopSignal& stop) {
    const auto screen = Screen::of_stdout();
    Commits commits(asked, with, asked.name);
    while (!stop.requested()) {
        const auto events = commits.take();
        for (const auto& event : events) tell_event(asked, screen, event);
        if (asked.once) return;
        if (events.empty()) stop.wait_a_moment();
    }
}

// Events wait here until the group is done with them. A group that is far behind is shown as it goes on.
void follow_group(const TailAsked& asked, Operator& with, const std::string& outbox, const StopSignal& stop) {
    constexpr std::size_t most_waiting = 500;
    const auto screen = Screen::of_stdout();
    Commits commits(asked, with, outbox);
    struct Waiting {
        Item event;
        std::string state;
    };
    std::map<long long, Waiting> waiting;
    while (!stop.requested()) {
        bool news = false;
        if (waiting.size() < most_waiting) {
            for (const auto& event : commits.take()) {
                waiting[Json::parse(event.text)["offset"].get<long long>()] = {event, "waiting"};
                news = true;
            }
        }
        std::vector<long long> offsets;
        for (const auto& [offset, _] : waiting) offsets.push_back(offset);
        const auto states = with.db().query(
            "select o, d.state, coalesce(d.error, '') from unnest($1::bigint[]) o cross join lateral "
            "baton.event_deliveries($2::regclass, o) d where d.group_name = $3 order by 1",
            {postgres::array_literal(offsets), outbox, asked.name});
        for (int row = 0; row < states.rows(); ++row) {
            auto found = waiting.find(states.number(row, 0));
            const std::string state = states.text(row, 1);
            const bool wanted = asked.state.empty() || asked.state == state;
            if (state != found->second.state && state != "waiting" && state != "leased" && wanted) {
                const std::string told = with.db().value(
                    "select $1::jsonb || jsonb_build_object('state', $2::text, 'error', nullif($3::text, "
                    "''))",
                    {found->second.event.text, state, states.text(row, 2)});
                tell_event(asked, screen, {told, found->second.event.payload}, state, states.text(row, 2));
                news = true;
            }
            found->second.state = state;
            if (state == "settled" || state == "dead") waiting.erase(found);
        }
        if (asked.once) return;
        if (!news) stop.wait_a_moment();
    }
}

void tell_message(const TailAsked& asked, const Screen& screen, const Item& item, const Json& message) {
    const std::string state = message["state"].get<std::string>();
    const std::string error = show(message["error"]);
    const Tone tone = state == "dead" ? Tone::bad : state == "processed" ? Tone::good : Tone::plain;
    tell(asked, screen, item.text,
         {{moment(message["processed_at"].is_null() ? message["received_at"] : message["processed_at"]),
           Tone::faint},
          {state, tone},
          {show(message["event_id"]), Tone::plain},
          {show(message["event_type"]), Tone::strong},
          {show(message["aggregate_id"]), Tone::plain},
          {error.empty() ? payload_line(message["payload"], item.payload) : error, Tone::faint}});
}

// Messages that were told, each as it was then: a lease is no news, and an answer may have some again.
class Told {
  public:
    bool is_news(const Json& message) {
        const std::string id = message["event_id"].get<std::string>();
        std::string now = message["state"].get<std::string>() + message["attempts"].dump();
        const auto [at, is_new] = told_.try_emplace(id, now);
        if (is_new) order_.push_back(id);
        if (order_.size() > most) {
            told_.erase(order_.front());
            order_.pop_front();
        }
        return is_new || std::exchange(at->second, now) != now;
    }

  private:
    static constexpr std::size_t most = 100'000;
    std::map<std::string, std::string> told_;
    std::deque<std::string> order_;  // the oldest is forgotten first, and may be told again
};

void follow_inbox(const TailAsked& asked, Operator& with, const StopSignal& stop) {
    const auto screen = Screen::of_stdout();
    Told told;
    Json arguments{{"inbox", asked.name}, {"limit", asked.lines}};
    if (!asked.type.empty()) arguments["event_type"] = asked.type;
    if (!asked.key.empty()) arguments["aggregate"] = asked.key;
    while (!stop.requested()) {
        const std::string answer = with.ask("tail_messages", arguments);
        const auto messages = items_of(with, answer);
        for (const auto& item : messages) {
            const Json message = Json::parse(item.text);
            const bool wanted = asked.state.empty() || message["state"] == asked.state;
            if (told.is_news(message) && wanted) tell_message(asked, screen, item, message);
        }
        if (asked.once) return;
        const bool more = arguments.contains("after") && messages.size() == 1000;
        arguments["after"] = Json::parse(answer)["next"];
        arguments["limit"] = 1000;
        if (!more) stop.wait_a_moment();
    }
}

// Refuse a filter that says nothing about what is followed.
void check_filters(const TailAsked& asked, bool outbox, bool group) {
    if (outbox && !asked.state.empty())
        throw UsageError("--state says nothing about an outbox", "follow a group or an inbox");
    if (!outbox && !group && (!asked.since.empty() || !asked.tenant.empty()))
        throw UsageError(
            std::string(asked.since.empty() ? "--tenant" : "--since") + " says nothing about an inbox",
            "baton inboxes NAME --messages shows what came before");
    const std::set<std::string> states = group ? std::set<std::string>{"settled", "retry", "blocked", "dead"}
                                               : std::set<std::string>{"pending", "processed", "dead"};
    if (!asked.state.empty() && !states.contains(asked.state)) {
        std::string known;
        for (const auto& state : states) known += (known.empty() ? "" : ", ") + state;
        throw UsageError("--state is none of " + known);
    }
}

[[noreturn]] void refuse_adopted(const std::string& name) {
    throw UsageError("\"" + name +
                         "\" is an adopted outbox, which cannot be followed: its table does not tell "
                         "in which order its events were committed",
                     "baton event ID tells the way of one; baton dead list --in NAME has those that failed");
}

int tail(const TailAsked& asked) {
    Operator with(asked.target);
    const StopSignal stop;
    const auto found = with.db().query(
        "select (select o.relation::text from baton.outboxes o where o.relation = "
        "baton_internal.known_table($1)), "
        "(select o.relation::text from baton.consumer_groups g join baton.outboxes o using (outbox_id) where "
        "g.group_name = $1), "
        "exists (select from baton.inboxes i where i.relation = baton_internal.known_table($1) or i.name = "
        "$1), exists (select from baton.adopted_outboxes a where baton_internal.known_table(format('%I.%I', "
        "a.schema_name, a.table_name)) = baton_internal.known_table($1))",
        {asked.name});
    const bool outbox = !found.is_null(0, 0) && (asked.of.empty() || asked.of == "outbox");
    const bool group = !found.is_null(0, 1) && (asked.of.empty() || asked.of == "group");
    const bool inbox = found.boolean(0, 2) && (asked.of.empty() || asked.of == "inbox");
    if (outbox + group + inbox > 1)
        throw UsageError("\"" + asked.name + "\" is the name of several things",
                         "say which with --of outbox, --of group or --of inbox");
    if (outbox || group || inbox) check_filters(asked, outbox, group);
    if (outbox)
        follow_outbox(asked, with, stop);
    else if (group)
        follow_group(asked, with, found.text(0, 1), stop);
    else if (inbox)
        follow_inbox(asked, with, stop);
    else if (found.boolean(0, 3))
        refuse_adopted(asked.name);
    else
        throw UsageError("there is no outbox, group or inbox \"" + asked.name + "\"",
                         "baton status lists them");
    return done;
}

}  // namespace

void add_tail(Program& program) {
    auto asked = std::make_shared<TailAsked>();
    auto& command =
        program.add("tail", "follow an outbox, a group or an inbox", [asked] { return tail(*asked); });
    add_asked(command, *asked);
    command.add_option("NAME", asked->name, "name of an outbox, a group or an inbox")->required();
    command.add_option("--of", asked->of, "what the name is of")
        ->check(CLI::IsMember({"outbox", "group", "inbox"}));
    command.add_option("-n,--lines", asked->lines, "how many of the last ones to begin with")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command.add_option("--type", asked->type, "only this type of event");
    command.add_option("--key", asked->key, "only this key, or aggregate of an inbox");
    command.add_option("--since", asked->since,
                       "begin with the events since then; -2h is two hours ago; of an outbox or a group");
    command.add_option("--tenant", asked->tenant, "only events of this tenant; of an outbox or a group");
    command.add_option(
        "--state", asked->state,
        "only what comes into this state: settled, retry, blocked or dead of a group; pending, "
        "processed or dead of an inbox");
    command.add_flag("--once", asked->once, "do not follow");
}

}  // namespace baton::cli
