#pragma once
// Turns one or several messages into one HTTP request.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brokers/http/webhook_signature.hpp"
#include "event/event.hpp"
#include "wire/http_transfers.hpp"

namespace baton::brokers {

// A message that waits for its turn. The views live as long as the batch of the event.
struct HttpMessage {
    std::uint64_t ticket = 0;
    std::string message_id;
    std::string url;
    std::string_view key;
    std::string_view body;
    std::string_view content_type;
    Headers headers;
    bool alone = false;  // the message was in a batch that was refused
};

// Encode a header's value, or name, so that it survives HTTP. In a text that is encoded already a percent
// sign stays.
std::string encode_header_value(std::string_view value, bool encoded_already);
std::string encode_header_name(std::string_view name);

class HttpComposer {
  public:
    HttpComposer(WebhookSigner signer, std::vector<Header> extra)
        : signer_(std::move(signer)), extra_(std::move(extra)) {}

    // Make a request with one message as its body.
    wire::HttpRequest single(const HttpMessage& message) const;
    // Make a request with several messages in a JSON array. All of them go to one URL, and all or none of
    // them are structured CloudEvents.
    wire::HttpRequest batch(std::span<const HttpMessage> messages) const;

  private:
    void add_signature(wire::HttpRequest& request, const std::string& id) const;

    WebhookSigner signer_;
    std::vector<Header> extra_;
};

// True for a structured CloudEvent in JSON.
bool is_cloud_event(const HttpMessage& message);

}  // namespace baton::brokers
