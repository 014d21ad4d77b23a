// Templates and patterns, which users write, over event fields, which anybody writes.

#include "event/template.hpp"

#include "brokers/kafka/form.hpp"
#include "brokers/nats/form.hpp"
#include "brokers/rabbitmq/form.hpp"
#include "event/router.hpp"
#include "fuzz.hpp"

using namespace baton;
using fuzz::require;

namespace {

void route(std::string_view text, DestinationRules rules, const Event& event) {
    try {
        const Router router(text, rules, {{}, {std::string(text)}, {}});
        router.wants(event);
        Reused<std::string> destinations;
        router.route(event, destinations);
        require(!destinations.empty(), "an event that was routed has a destination");
        for (const auto& destination : destinations) {
            require(!destination.empty(), "a destination is not empty");
            require(destination.find('\0') == std::string::npos, "a destination is text");
        }
    } catch (const UsageError&) {
    } catch (const RenderError&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Values values(fuzz::text_of(data, size));
    const std::string_view text = values.next();
    Event event;
    event.event_id = "0190c6b4-0000-7000-8000-00000000002a";
    event.topic = values.next();
    event.event_type = values.next();
    event.aggregate_id = values.next();
    try {
        const Template made(text);
        const std::string rendered = made.render(event);
        if (text.find_first_of("{}") == std::string_view::npos) {
            require(rendered == text, "a template without braces is its own text");
            require(made.constant(), "a template without braces is the same for every event");
        }
        if (made.constant()) require(made.render(Event()) == rendered, "a constant template does not change");
    } catch (const UsageError&) {
    } catch (const RenderError&) {
    }
    for (const auto& rules : {DestinationRules(), brokers::kafka_form.rules, brokers::nats_form.rules,
                              brokers::rabbitmq_form.rules, url_rules})
        route(text, rules, event);
    require(matches_pattern(text, "*"), "a star matches everything");
    if (text.find_first_of("*?") == std::string_view::npos)
        require(matches_pattern(text, text), "a text matches itself");
    return 0;
}
