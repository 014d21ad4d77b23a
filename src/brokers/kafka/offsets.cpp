#include "brokers/kafka/offsets.hpp"

#include <algorithm>

namespace baton::brokers {

KafkaPartitions make_kafka_partitions() {
    return {rd_kafka_topic_partition_list_new(8), &rd_kafka_topic_partition_list_destroy};
}

KafkaOffsets::Partition KafkaOffsets::partition_of(const rd_kafka_message_t& message) {
    return {rd_kafka_topic_name(message.rkt), message.partition};
}

void KafkaOffsets::gain(const rd_kafka_topic_partition_list_t& partitions) {
    for (int i = 0; i < partitions.cnt; ++i)
        owned_[{partitions.elems[i].topic, partitions.elems[i].partition}] = {.ownership = ++ownerships_};
}

void KafkaOffsets::lose(const rd_kafka_topic_partition_list_t& partitions) {
    for (int i = 0; i < partitions.cnt; ++i)
        owned_.erase({partitions.elems[i].topic, partitions.elems[i].partition});
}

std::optional<KafkaOffsets::Origin> KafkaOffsets::origin_of(const rd_kafka_message_t& message) const {
    const auto found = owned_.find(partition_of(message));
    if (found == owned_.end()) return std::nullopt;
    return Origin{found->second.ownership, message.offset};
}

void KafkaOffsets::settle(const rd_kafka_message_t& message, const Origin& origin) {
    const auto found = owned_.find(partition_of(message));
    if (found != owned_.end() && found->second.ownership == origin.ownership)
        found->second.settled = origin.offset + 1;
}

void KafkaOffsets::note_committed(const rd_kafka_topic_partition_list_t& answer) {
    for (int i = 0; i < answer.cnt; ++i) {
        const auto found = owned_.find({answer.elems[i].topic, answer.elems[i].partition});
        if (found != owned_.end() && answer.elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR)
            found->second.committed = answer.elems[i].offset;
    }
}

bool KafkaOffsets::all_committed() const {
    return std::all_of(owned_.begin(), owned_.end(),
                       [](const auto& entry) { return entry.second.committed == entry.second.settled; });
}

KafkaPartitions KafkaOffsets::uncommitted() const {
    auto list = make_kafka_partitions();
    for (const auto& [place, mine] : owned_)
        if (mine.committed != mine.settled)
            rd_kafka_topic_partition_list_add(list.get(), place.first.c_str(), place.second)->offset =
                mine.settled;
    return list;
}

KafkaPartitions KafkaOffsets::partitions() const {
    auto list = make_kafka_partitions();
    for (const auto& [place, mine] : owned_)
        rd_kafka_topic_partition_list_add(list.get(), place.first.c_str(), place.second);
    return list;
}

}  // namespace baton::brokers
