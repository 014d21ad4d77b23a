// baton pipelines: those of the catalog, and files of them.

#include <filesystem>
#include <iostream>
#include <memory>

#include "assembly/read_settings.hpp"
#include "base/file.hpp"
#include "baton/error.hpp"
#include "brokers/registry.hpp"
#include "cli/check.hpp"
#include "cli/listings.hpp"
#include "cli/operate.hpp"

namespace baton::cli {

namespace {

namespace fs = std::filesystem;

struct PipelineAsked : Asked {
    std::string name;
    fs::path file;
    std::string sink, outbox;
    bool force = false;
    bool yes = false;
};

int list(const PipelineAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("list_pipelines");
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json items = Json::parse(answer)["items"];
    if (items.empty())
        std::cout << "the catalog has no pipelines; those of a relay's file are in the file\n";
    else
        print_table(std::cout, Screen::of_stdout(), items, pipeline_columns);
    return done;
}

int show_pipeline(const PipelineAsked& asked) {
    Operator with(asked.target);
    const std::string answer = with.ask("show_pipeline", {{"pipeline", asked.name}});
    if (asked.json) {
        std::cout << answer << "\n";
        return done;
    }
    const Json pipeline = Json::parse(answer);
    print_record(std::cout, Screen::of_stdout(), pipeline,
                 {{"pipeline", "pipeline"},
                  {"enabled", "enabled"},
                  {"source", "from"},
                  {"group", "group"},
                  {"sink", "to"},
                  {"owner", "relay"},
                  {"owned_until", "until", Form::time},
                  {"lag_events", "behind", Form::count},
                  {"lag_seconds", "for", Form::seconds},
                  {"dead_letters", "dead", Form::count, true},
                  {"updated_at", "changed", Form::time},
                  {"updated_by", "by"}});
    std::cout << pipeline["settings"].dump(2) << "\n";
    return done;
}

int change(const PipelineAsked& asked, const std::string& operation, const std::string& participle) {
    Operator with(asked.target);
    const std::string answer = with.ask(operation, {{"pipeline", asked.name}});
    std::cout << (asked.json ? answer : "pipeline " + asked.name + " is " + participle) << "\n";
    return done;
}

int lint(const PipelineAsked& asked) {
    DaemonOptions options;
    options.file = asked.file;
    return check_relay({}, options, true);
}

// A file to begin with. What most people leave alone stands in remarks.
int create(const PipelineAsked& asked) {
    const std::string name = asked.name.empty() ? asked.outbox + "-to-" + asked.sink : asked.name;
    std::string text =
        "# A pipeline for baton relay --config FILE. Check it with: baton pipelines lint FILE\n"
        "# Everything that can be set: docs/relay.md\n"
        "[[pipeline]]\nname = " +
        Json(name).dump() +
        "                # the consumer group has this name, too\n\n[pipeline.source]\noutbox = " +
        Json(asked.outbox).dump() +
        "\n# start = \"latest\"                   # a new group begins with what comes from now on\n\n"
        "# [pipeline.filter]                   # patterns with * and ?, ! excludes\n"
        "# event_types = [\"order.*\", \"!order.viewed\"]\n\n[pipeline.sink]\n" +
        brokers::example_of_sink(asked.sink) +
        "\n# [pipeline.failure]\n# attempts = 8                         # in a row, before an event is "
        "parked\n# max_attempts = 10                    # before it is a dead letter\n";
    if (asked.file.empty()) {
        std::cout << text;
        return done;
    }
    if (fs::exists(asked.file) && !asked.force)
        throw UsageError("the file " + asked.file.string() + " exists already",
                         "name another one, or overwrite it with --force");
    write_text(asked.file, text);
    std::cout << "wrote " << asked.file.string() << "; next: baton pipelines lint " << asked.file.string()
              << "\n";
    return done;
}

}  // namespace

void add_pipelines(Program& program) {
    auto& family =
        program.add_family("pipelines", "pipelines: list, show, enable, disable, delete, lint, create");
    const auto add = [&](const char* name, const char* about, auto action) {
        auto asked = std::make_shared<PipelineAsked>();
        auto& command = program.add(family, name, about, [asked, action] { return action(*asked); });
        return std::pair<CLI::App&, std::shared_ptr<PipelineAsked>>(command, asked);
    };
    {
        auto [command, asked] = add("list", "pipelines of the catalog", list);
        add_asked(command, *asked);
    }
    const auto add_named = [&](const char* name, const char* about, auto action) {
        auto [command, asked] = add(name, about, action);
        add_asked(command, *asked);
        command.add_option("NAME", asked->name, "which pipeline")->required();
    };
    add_named("show", "one pipeline with its settings", show_pipeline);
    add_named("enable", "let relays run a pipeline",
              [](const PipelineAsked& asked) { return change(asked, "enable_pipeline", "enabled"); });
    add_named("disable", "make relays drain and stop a pipeline",
              [](const PipelineAsked& asked) { return change(asked, "disable_pipeline", "disabled"); });
    add_named("delete", "delete a pipeline from the catalog; its group keeps its place",
              [](const PipelineAsked& asked) { return change(asked, "delete_pipeline", "deleted"); });
    {
        auto [command, asked] = add("lint", "check a file of pipelines; connects nowhere", lint);
        command.add_option("FILE", asked->file, "TOML file, or a folder of them")->required();
    }
    {
        auto [command, asked] = add("create", "write a file with a pipeline to begin with", create);
        command.add_option("--sink", asked->sink, "type of the sink: kafka, nats, http and so on")
            ->required();
        command.add_option("--outbox", asked->outbox, "what to read")->default_val("orders");
        command.add_option("--name", asked->name, "name of the pipeline (default: OUTBOX-to-SINK)");
        command.add_option("FILE", asked->file, "where to write it (default: stdout)");
        command.add_flag("--force", asked->force, "overwrite the file");
    }
}

}  // namespace baton::cli
