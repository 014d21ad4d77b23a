#pragma once
// Receives webhooks. The sender gets 2xx only after the message was settled. So a sender that tries again
// until it gets 2xx loses nothing; copies are recognised by their id.
//
//   204  the message is settled
//   400  nothing could be kept: there is neither body nor id, or the signature's headers cannot be read
//   401  signature, HMAC or token is missing or wrong, or the signature is older than `tolerance`
//   404  another path; 405 another method
//   408  the request did not arrive within request_timeout
//   413  more than max_body bytes
//   415  a Content-Encoding that cannot be undone, or a form in parts
//   429  max_pending messages or max_pending_bytes are waiting; Retry-After says when to come again
//   503  not settled within answer_timeout, or too many connections, or the relay stops; with Retry-After too
//
// The id of a message comes from id_header or id_field where the settings name one, else from the header
// webhook-id or Idempotency-Key, else from the content (incoming.hpp). The topic is the path. Headers of HTTP
// itself and secrets are not passed on. %XX in values, as baton's own sink writes it, is decoded.
//
// Settings: listen (HOST:PORT), path ("/"; "/hooks/*" takes everything below), one or more of secret
// (Standard Webhooks, one or a list; tolerance = 5m), hmac_secret (hex or base64 of HMAC-SHA256 over the
// body, "sha256=" before it or not, in hmac_header = "X-Hub-Signature-256") and token (Authorization:
// Bearer), or auth = "none"; all that are given must hold; max_body (1 MB), max_pending (100),
// max_pending_bytes (16 MB), answer_timeout (30s), request_timeout (30s, for a whole request to arrive),
// tls_cert and tls_key; those of incoming.hpp.

#include "brokers/broker.hpp"

namespace baton::brokers {

std::unique_ptr<BrokerSource> make_http_source(const relay::Settings& settings, const Reader& reader);

}  // namespace baton::brokers
