// Small changes: publish an event, move a group, let an aggregate of an inbox go on, change a setting.

#include <iostream>
#include <map>
#include <memory>

#include "baton/error.hpp"
#include "cli/operate.hpp"

namespace baton::cli {

namespace {

// Options of a command that become arguments of its operation, by name.
struct OperationAsked : Asked {
    std::map<std::string, std::string> options;
    bool yes = false;

    Json given() const {
        Json all = Json::object();
        for (const auto& [name, value] : options)
            if (!value.empty()) all[name] = value;
        return all;
    }
};

int run_operation(const OperationAsked& asked, const std::string& operation, const std::string& said) {
    Operator with(asked.target);
    const std::string answer = with.ask(operation, asked.given());
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json values = Json::parse(answer);
    std::string sentence;
    for (std::size_t at = 0; at < said.size();) {  // {name} stands for a value of the answer
        const auto open = said.find('{', at);
        sentence += said.substr(at, open - at);
        if (open == std::string::npos) break;
        const auto close = said.find('}', open);
        sentence += show(values[said.substr(open + 1, close - open - 1)], Form::count);
        at = close + 1;
    }
    std::cout << sentence << "\n";
    return done;
}

int publish(OperationAsked asked) {
    asked.options["payload"] = read_given(asked.options["payload"]);
    return run_operation(asked, "publish", "published at offset {offset}");
}

int seek(const OperationAsked& asked) {
    if (!asked.yes && !confirm("move group " + asked.options.at("group") +
                               "? what lies between is skipped, or comes again"))
        throw UsageError("nobody said yes to moving group " + asked.options.at("group"), "add --yes");
    return run_operation(asked, "seek", "group {group} has {lag_events} events to read");
}

}  // namespace

void add_mend(Program& program) {
    const auto option = [](CLI::App& command, const std::shared_ptr<OperationAsked>& asked,
                           const std::string& flag, const std::string& name, const std::string& about) {
        return command.add_option(flag, asked->options[name], about);
    };
    {
        auto asked = std::make_shared<OperationAsked>();
        auto& command = program.add("publish", "publish one event", [asked] { return publish(*asked); });
        add_asked(command, *asked);
        option(command, asked, "OUTBOX", "outbox", "where to")->required();
        option(command, asked, "TYPE", "event_type", "what happened, like order.created")->required();
        option(command, asked, "PAYLOAD", "payload", "JSON, @FILE, or - for stdin")->required();
        option(command, asked, "--aggregate-type", "aggregate_type", "kind of the thing that changed");
        option(command, asked, "--aggregate-id", "aggregate_id",
               "which one changed; events of one keep their order");
        option(command, asked, "--key", "partition_key", "what to order by, if not by the aggregate");
        option(command, asked, "--topic", "topic", "where the event is to go");
        option(command, asked, "--headers", "headers", "headers, a JSON object");
        option(command, asked, "--tenant", "tenant_id", "tenant");
        option(command, asked, "--trace", "trace_id", "trace");
        option(command, asked, "--idempotency-key", "idempotency_key",
               "the same key publishes once within the window");
    }
    {
        auto asked = std::make_shared<OperationAsked>();
        auto& command =
            program.add("seek", "move a group to another place of its log", [asked] { return seek(*asked); });
        add_asked(command, *asked);
        option(command, asked, "GROUP", "group", "which group")->required();
        option(command, asked, "--offset", "offset", "read on behind this offset");
        option(command, asked, "--time", "time",
               "read on from the first event that occurred then; -2h is two hours ago");
        option(command, asked, "--to", "place", "beginning or end")
            ->check(CLI::IsMember({"beginning", "end"}));
        command.add_flag("--yes", asked->yes, "do not ask");
    }
    {
        auto asked = std::make_shared<OperationAsked>();
        auto& command = program.add(
            "skip", "let an aggregate of an ordered inbox go on without the message that it waits for",
            [asked] {
                return run_operation(*asked, "skip", "aggregate {aggregate} has reached sequence {sequence}");
            });
        add_asked(command, *asked);
        option(command, asked, "INBOX", "inbox", "which inbox")->required();
        option(command, asked, "AGGREGATE", "aggregate", "which aggregate")->required();
        option(command, asked, "--to", "to_sequence",
               "the last sequence to do without; left out: the next one");
    }
    {
        auto asked = std::make_shared<OperationAsked>();
        auto& command = program.add("set", "change a setting of this database", [asked] {
            return run_operation(*asked, "set_setting", "{setting} is {value}");
        });
        add_asked(command, *asked);
        option(command, asked, "SETTING", "setting", "which; baton settings lists them")->required();
        option(command, asked, "VALUE", "value", "its value")->required();
    }
}

}  // namespace baton::cli
