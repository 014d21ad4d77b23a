#pragma once
// Posts to webhooks: destination = URL.
//
// 2xx: delivered. 408, 425, 429, 5xx or no answer: retried, after the time in Retry-After where there is one.
// 401 to 405, 407, 410, 421, 426, 451 and redirects, which are not followed: the endpoint is shut. Any other
// status: rejected, with the beginning of the answer.
//
// A request carries webhook-id and Idempotency-Key (the message id), webhook-timestamp, webhook-signature
// when there are secrets (Standard Webhooks), Content-Type, partition-key, and the message's headers. In
// names and values of headers, bytes that HTTP does not allow or does not keep are written as %XX, and so is
// the percent sign. "ce-" headers are encoded already, by CloudEvents' own rule, so their percent signs stay.
// A header that HTTP or this sink uses itself is sent as "event-NAME".
//
// mode = "batch" posts JSON arrays. The elements are the bodies when they are structured CloudEvents, else
// objects with id, key, content_type, headers and data (JSON as it is, text as a string) or data_base64. When
// a batch is refused for good, its messages go one by one, so that only the message at fault is rejected.
//
// Private, loopback and link-local addresses are refused unless allow_private = true: the endpoint is shut.
// The sink judges the address to which it connects, so a name that changes between two look-ups does not
// help.
//
// Settings: url (its template), mode, batch_size, batch_bytes, secret (one or a list), headers.NAME,
// allow_private, max_concurrent, connect_timeout, timeout, max_message_bytes, proxy, tls_*.

#include <memory>

#include "relay/io.hpp"
#include "relay/settings.hpp"

namespace baton::brokers {

std::unique_ptr<relay::Sink> make_http_sink(const relay::Settings& settings);

}  // namespace baton::brokers
