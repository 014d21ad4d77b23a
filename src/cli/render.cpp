// baton render: what a pipeline would send for the next events. Sends nothing and moves nothing.

#include <iostream>
#include <memory>

#include "assembly/catalog.hpp"
#include "assembly/rendering.hpp"
#include "baton/error.hpp"
#include "cli/operate.hpp"
#include "relay/config.hpp"

namespace baton::cli {

namespace {

struct RenderAsked : Asked {
    std::string pipeline;
    std::string file;
    int events = 3;
};

relay::Settings find_pipeline(Operator& with, const RenderAsked& asked) {
    const auto pipelines =
        asked.file.empty() ? assembly::read_catalog(with.db()) : relay::read_config(asked.file).pipelines;
    for (const auto& settings : pipelines)
        if (settings.text("name") == asked.pipeline) return settings;
    throw UsageError("there is no pipeline \"" + asked.pipeline + "\" " +
                         (asked.file.empty() ? "enabled in the catalog" : "in " + asked.file),
                     asked.file.empty()
                         ? "baton pipelines list has them; --config FILE looks into a relay's file"
                         : "look at the names in the file");
}

void print_message(const Screen& screen, const Json& message) {
    const auto text = [&message](const char* name) { return harmless(message[name].get<std::string>()); };
    const std::string destination = text("destination");
    std::cout << toned(screen, Tone::strong, destination.empty() ? "(no destination)" : destination)
              << "  offset " << message["offset"] << "  key " << text("key") << "  " << text("content_type")
              << "\n";
    for (const auto& [name, value] : message["headers"].items())
        std::cout << "  " << toned(screen, Tone::faint, harmless(name)) << ": " << show(value) << "\n";
    std::cout << "  " << text("body") << "\n";
}

int render(const RenderAsked& asked) {
    Operator with(asked.target);
    auto rendered = assembly::render(with.db(), find_pipeline(with, asked), asked.events);
    if (asked.json) {
        print_json(std::cout, assembly::as_json(std::move(rendered)));
        return done;
    }
    if (rendered.items.empty() && rendered.left_out.empty())
        print_progress("the outbox has no events");
    else if (!rendered.waiting)
        print_progress("no event waits for this pipeline; these are the last ones of the outbox");
    for (const auto& [offset, why, filtered] : rendered.left_out) {
        const std::string words = "offset " + std::to_string(offset) + " " + why;
        filtered ? print_progress(words) : print_error(words);
    }
    const auto screen = Screen::of_stdout();
    for (const auto& message : rendered.items) print_message(screen, message);
    return done;
}

}  // namespace

void add_render(Program& program) {
    auto asked = std::make_shared<RenderAsked>();
    auto& command = program.add("render", "what a pipeline would send for the next events; sends nothing",
                                [asked] { return render(*asked); });
    add_asked(command, *asked);
    command.add_option("PIPELINE", asked->pipeline, "name of a pipeline")->required();
    command.add_option("--config", asked->file, "the relay's file that has it (default: the catalog)");
    command.add_option("-n,--events", asked->events, "how many events")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
}

}  // namespace baton::cli
