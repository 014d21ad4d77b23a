#include "brokers/redis/entry.hpp"

#include <charconv>

#include "baton/error.hpp"
#include "event/json.hpp"
#include "wire/encoding.hpp"

namespace baton::brokers {

namespace {

std::string_view view_of(const redisReply& reply) {
    return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

bool is_list(const redisReply& reply) {
    return reply.type == REDIS_REPLY_ARRAY;
}

// Make a JSON object of an entry's fields.
std::string fields_as_json(const redisReply& fields) {
    std::string out = "{";
    for (std::size_t i = 0; i + 1 < fields.elements; i += 2) {
        if (i > 0) out += ',';
        const std::string_view value = view_of(*fields.element[i + 1]);
        const bool text = is_text(value);
        append_json_string(out, std::string(view_of(*fields.element[i])) + (text ? "" : "_base64"));
        out += ':';
        append_json_string(out, text ? std::string(value) : wire::base64_encode(value));
    }
    return out + "}";
}

}  // namespace

const redisReply* entries_of_read(const redisReply& answer) {
    if (answer.type == REDIS_REPLY_NIL) return nullptr;
    const bool asked_for = is_list(answer) && answer.elements == 1 && is_list(*answer.element[0]) &&
                           answer.element[0]->elements == 2 && is_list(*answer.element[0]->element[1]);
    if (!asked_for) throw ConnectionError("redis answered XREADGROUP out of protocol");
    const redisReply& entries = *answer.element[0]->element[1];
    return entries.elements > 0 ? &entries : nullptr;
}

const redisReply& entries_of_claim(const redisReply& answer, std::string& cursor) {
    if (!is_list(answer) || answer.elements < 2 || !is_list(*answer.element[1]))
        throw ConnectionError("redis answered XAUTOCLAIM out of protocol");
    cursor = view_of(*answer.element[0]);
    return *answer.element[1];
}

std::string last_id(const redisReply& entries) {
    const redisReply& last = *entries.element[entries.elements - 1];
    return is_list(last) && last.elements > 0 ? std::string(view_of(*last.element[0])) : std::string();
}

void for_each_entry(const redisReply& entries,
                    const std::function<void(std::string id, const redisReply& fields)>& take,
                    const std::function<void(std::string id)>& forget) {
    for (std::size_t i = 0; i < entries.elements; ++i) {
        const redisReply& entry = *entries.element[i];
        if (!is_list(entry) || entry.elements != 2) continue;  // deleted in the meantime
        std::string id(view_of(*entry.element[0]));
        if (is_list(*entry.element[1]))
            take(std::move(id), *entry.element[1]);
        else
            forget(std::move(id));
    }
}

void decode_entry(const std::string& id, const redisReply& fields, const std::string& stream,
                  const std::string& body_field, const intake::Decoder& decoder, intake::BrokerBatch& batch) {
    intake::Incoming incoming;
    incoming.topic = stream;
    incoming.position = stream + "/" + id;
    std::int64_t time = 0;
    std::from_chars(id.data(), id.data() + id.size(), time);
    incoming.time = intake::broker_time(std::chrono::milliseconds(time));
    for (std::size_t i = 0; i + 1 < fields.elements; i += 2) {
        const std::string_view name = view_of(*fields.element[i]);
        const std::string_view value = view_of(*fields.element[i + 1]);
        if (name == body_field)
            incoming.body = std::string_view(value.data() == nullptr ? "" : value.data(), value.size());
        else if (name == "message_id")
            incoming.message_id = value;
        else if (name == "key")
            incoming.key = value;
        else if (name == "content_type")
            incoming.content_type = value;
        else
            incoming.headers.push_back({name.starts_with("header:") ? name.substr(7) : name, value});
    }
    if (!incoming.body) {
        incoming.body = batch.keep(fields_as_json(fields));
        incoming.headers.clear();
    }
    decoder.decode(incoming, batch);
}

}  // namespace baton::brokers
