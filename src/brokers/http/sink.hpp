#pragma once
// Posts to webhooks: destination = URL.
//
// 2xx is delivered. 408, 425, 429, 5xx and everything that gave no answer is retried, after the time that
// Retry-After names where it is there. 401 to 405, 407, 410, 421, 426, 451 and redirects, which are not
// followed, mean the endpoint: it is shut. Any other status is rejected with the beginning of the answer.
//
// A request carries webhook-id and Idempotency-Key (the message id), webhook-timestamp, webhook-signature
// when there are secrets (Standard Webhooks), Content-Type, partition-key, and the message's headers. In
// their names and values, bytes that HTTP does not allow or does not keep are written %XX, as is the percent
// sign; in "ce-" headers, which come encoded by CloudEvents' own rule, it is left alone. A header that HTTP
// or this sink uses itself is sent as "event-NAME".
//
// mode = "batch" posts JSON arrays: of the bodies when they are structured CloudEvents, else of objects with
// id, key, content_type, headers and data (JSON as it is, text as a string) or data_base64. When a batch is
// refused for good, its messages go one by one, so that only the culprit is rejected.
//
// Private, loopback and link-local addresses are refused unless allow_private = true, by the address that is
// connected to: the endpoint is shut. So a name that changes between look-ups passes nothing.
//
// Settings: url (its template), mode, batch_size, batch_bytes, secret (one or a list), headers.NAME,
// allow_private, max_concurrent, connect_timeout, timeout, max_message_bytes, proxy, tls_*.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_http_sink(const relay::Settings& settings);

}  // namespace baton::brokers
