#pragma once
// What a pipeline would send for the next events of its outbox. Sends nothing and moves nothing.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "postgres/connection.hpp"
#include "relay/settings.hpp"

namespace baton::assembly {

struct Rendered {
    bool waiting = false;          // the events wait for the pipeline; else they are the last ones
    nlohmann::ordered_json items;  // messages: offset, event_id, destination, message_id, key, content_type,
                                   // headers, body
    struct LeftOut {
        long long offset;
        std::string why;
        bool filtered;  // else: it can never be sent
    };
    std::vector<LeftOut> left_out;
};

// Throws UsageError when the pipeline does not read an outbox of this database.
Rendered render(postgres::Connection& db, const relay::Settings& pipeline, int events);

// {"waiting", "items", "left_out"}
nlohmann::ordered_json as_json(Rendered rendered);

}  // namespace baton::assembly
