// The answers of SQS, or of what speaks its protocol: to a poll, and when it refuses.

#include "brokers/sqs/message.hpp"

#include <nlohmann/json.hpp>

#include "brokers/sqs/access.hpp"
#include "event/json.hpp"
#include "fuzz.hpp"

using namespace baton;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string body(fuzz::text_of(data, size));
    const auto answer = nlohmann::json::parse(body, nullptr, false);
    const intake::Decoder decoder(relay::Settings("fuzz"), "sqs", {});
    for (const char* queue :
         {"http://localhost:9324/000000000000/orders", "https://sqs.eu-west-1.amazonaws.com/1/orders.fifo"}) {
        brokers::SqsBatch batch;
        brokers::read_sqs_messages(answer, queue, decoder, batch);
        require(batch.events.size() == batch.handles.size(), "each event has its handle");
        for (const auto& event : batch.events) {
            require(!event.event_id.empty() && is_text(event.event_id), "an event has an id");
            require(event.topic && event.topic->starts_with("orders"), "and the queue's name");
        }
    }
    if (const auto place = brokers::entry_of(answer, 10)) require(*place < 10, "a result is about an entry");
    wire::HttpResponse response;
    response.status = 400;
    response.body = body;
    const auto complaint = brokers::SqsComplaint::read(response);
    require(!complaint.words().empty(), "a refusal has words");
    complaint.passes();
    complaint.concerns_queue();
    return 0;
}
