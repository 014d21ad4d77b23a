#pragma once
// The partitions that this member of a group owns, and how far each of them is settled and committed.
//
// A partition may go to another member and come back. Each time a new ownership begins. A message of an
// earlier ownership settles nothing, because another member may have read it since.

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace baton::brokers {

using KafkaPartitions =
    std::unique_ptr<rd_kafka_topic_partition_list_t, decltype(&rd_kafka_topic_partition_list_destroy)>;

KafkaPartitions make_kafka_partitions();

class KafkaOffsets {
  public:
    // The offset of a message, and the ownership of its partition in which the message came.
    struct Origin {
        std::uint64_t ownership;
        std::int64_t offset;
    };

    void gain(const rd_kafka_topic_partition_list_t& partitions);
    void lose(const rd_kafka_topic_partition_list_t& partitions);
    void lose_all() { owned_.clear(); }

    // Nothing when the message's partition is not ours any more.
    std::optional<Origin> origin_of(const rd_kafka_message_t& message) const;
    // Note that the message and everything before it in its partition is settled.
    void settle(const rd_kafka_message_t& message, const Origin& origin);
    // Note what the broker answered to a commit.
    void note_committed(const rd_kafka_topic_partition_list_t& answer);

    bool all_committed() const;
    // The settled offsets of which the broker does not know yet.
    KafkaPartitions uncommitted() const;
    KafkaPartitions partitions() const;

  private:
    struct Owned {
        std::uint64_t ownership = 0;
        std::int64_t settled = RD_KAFKA_OFFSET_INVALID;    // the offset behind the last settled message
        std::int64_t committed = RD_KAFKA_OFFSET_INVALID;  // the same, as far as the broker knows
    };
    using Partition = std::pair<std::string, std::int32_t>;

    static Partition partition_of(const rd_kafka_message_t& message);

    std::map<Partition, Owned> owned_;
    std::uint64_t ownerships_ = 0;
};

}  // namespace baton::brokers
