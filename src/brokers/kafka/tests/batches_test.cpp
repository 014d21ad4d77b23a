#include "brokers/kafka/batches.hpp"

#include <gtest/gtest.h>

using baton::brokers::KafkaBatches;

TEST(KafkaBatches, messages_of_a_refused_batch_go_alone_and_only_one_refused_then_is_guilty) {
    KafkaBatches batches(1000);
    EXPECT_FALSE(batches.refused());
    EXPECT_FALSE(batches.refused());
    EXPECT_FALSE(batches.alone());  // the producer is still the old one
    batches.begin();
    EXPECT_TRUE(batches.alone());
    batches.judged();
    EXPECT_FALSE(batches.draining());
    EXPECT_TRUE(batches.refused());
    EXPECT_TRUE(batches.draining());
    batches.begin();
    EXPECT_FALSE(batches.alone());
    EXPECT_EQ(batches.bytes(), 1000U);
}

TEST(KafkaBatches, when_nobody_was_guilty_batches_become_smaller_down_to_a_limit) {
    KafkaBatches batches(10'000);
    for (const std::size_t bytes : {5000U, 4096U, 4096U}) {
        EXPECT_FALSE(batches.refused());
        batches.begin();
        batches.judged();
        EXPECT_TRUE(batches.draining());
        batches.begin();
        EXPECT_EQ(batches.bytes(), bytes);
    }
}

TEST(KafkaBatches, a_new_producer_in_between_ends_nothing) {
    KafkaBatches batches(10'000);
    batches.refused();
    batches.refused();
    batches.begin();
    EXPECT_TRUE(batches.refused());
    batches.begin();
    EXPECT_TRUE(batches.alone());
    batches.judged();
    batches.begin();
    EXPECT_FALSE(batches.alone());
    EXPECT_EQ(batches.bytes(), 10'000U) << "one of them was guilty";
}
