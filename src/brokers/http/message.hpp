#pragma once
// How a message, or several, become one HTTP request.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brokers/http/webhook_signature.hpp"
#include "event/event.hpp"
#include "wire/http_transfers.hpp"

namespace baton::brokers {

// A message that waits for its turn; the views live as long as its event's batch.
struct HttpMessage {
    std::uint64_t ticket = 0;
    std::string message_id;
    std::string url;
    std::string_view key;
    std::string_view body;
    std::string_view content_type;
    Headers headers;
    bool alone = false;  // was in a batch that was refused
};

// Encode a header's value, or name, so that it survives HTTP; a percent sign is left alone in what is encoded
// already.
std::string encode_header_value(std::string_view value, bool encoded_already);
std::string encode_header_name(std::string_view name);

class HttpComposer {
  public:
    HttpComposer(WebhookSigner signer, std::vector<Header> extra)
        : signer_(std::move(signer)), extra_(std::move(extra)) {}

    // One message as the body of a request.
    wire::HttpRequest single(const HttpMessage& message) const;
    // Several in a JSON array; all of one URL, and all structured CloudEvents or none.
    wire::HttpRequest batch(std::span<const HttpMessage> messages) const;

  private:
    void add_signature(wire::HttpRequest& request, const std::string& id) const;

    WebhookSigner signer_;
    std::vector<Header> extra_;
};

// True for a structured CloudEvent in JSON.
bool is_cloud_event(const HttpMessage& message);

}  // namespace baton::brokers
