#pragma once
// A message as an entry of SendMessageBatch.

#include <string>

#include "event/event.hpp"

namespace baton::brokers {

struct SqsEntry {
    std::uint64_t ticket = 0;
    std::string queue_url;
    std::string json;       // the entry's members without the Id, which is the entry's place in the request
    std::size_t bytes = 0;  // as SQS counts them: body and attributes
    bool alone = false;     // the message was in a request that was refused
};

// Make the entry. It holds copies of everything.
SqsEntry make_entry(const Message& message, const std::string& queue_url);

// True for non-empty text that SQS takes: UTF-8 without control characters other than tab and line ends.
bool is_sqs_text(std::string_view text);

}  // namespace baton::brokers
