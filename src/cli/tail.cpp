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
#include <utility>

#include "baton/error.hpp"
#include "cli/operate.hpp"
#include "cli/stop_signal.hpp"

namespace baton::cli {

namespace {

struct TailAsked : Asked {
    std::string name, of, type, key;
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

void follow_outbox(const TailAsked& asked, Operator& with, const StopSignal& stop) {
    const auto screen = Screen::of_stdout();
    Json arguments = filter_of(asked, asked.name);
    arguments["limit"] = asked.lines;
    while (!stop.requested()) {
        const std::string answer = with.ask("tail_events", arguments);
        const auto events = items_of(with, answer);
        for (const auto& event : events) tell_event(asked, screen, event);
        if (asked.once) return;
        arguments["after"] = Json::parse(answer)["next"];
        arguments["limit"] = 1000;
        if (events.empty()) stop.wait_a_moment();
    }
}

// Events wait here until the group is done with them. A group that is far behind is shown as it goes on.
void follow_group(const TailAsked& asked, Operator& with, const std::string& outbox, const StopSignal& stop) {
    constexpr std::size_t most_waiting = 500;
    const auto screen = Screen::of_stdout();
    Json arguments = filter_of(asked, outbox);
    arguments["limit"] = asked.lines;
    struct Waiting {
        Item event;
        std::string state;
    };
    std::map<long long, Waiting> waiting;
    while (!stop.requested()) {
        bool news = false;
        if (waiting.size() < most_waiting) {
            const std::string answer = with.ask("tail_events", arguments);
            for (const auto& event : items_of(with, answer))
                waiting[Json::parse(event.text)["offset"].get<long long>()] = {event, "waiting"};
            arguments["after"] = Json::parse(answer)["next"];
            arguments["limit"] = 1000;
            news = !items_of(with, answer).empty();
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
            if (state != found->second.state && state != "waiting" && state != "leased") {
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
            if (told.is_news(message)) tell_message(asked, screen, item, message);
        }
        if (asked.once) return;
        const bool more = arguments.contains("after") && messages.size() == 1000;
        arguments["after"] = Json::parse(answer)["next"];
        arguments["limit"] = 1000;
        if (!more) stop.wait_a_moment();
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
    command.add_flag("--once", asked->once, "do not follow");
}

}  // namespace baton::cli
