// A database whose disk is full: whoever publishes fails as a whole, and nothing that was committed is lost.

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "base/process.hpp"
#include "support/broker.hpp"
#include "support/cluster.hpp"
#include "support/small_disk.hpp"

using namespace baton;
using namespace baton::test;

namespace {

// A database that lies on a small disk; the server's log and its other databases do not.
class FullDisk : public testing::TestWithParam<Form> {
  protected:
    void SetUp() override {
        try {
            disk_ = std::make_unique<SmallDisk>(96);
        } catch (const Unavailable& why) {
            GTEST_SKIP() << why.what();
        }
        auto& cluster = shared_cluster(GetParam());
        const auto url = cluster.quiet_database();
        const auto folder = *disk_ / "tablespace";
        std::filesystem::create_directory(folder);
        const auto account = find_account(cluster.server().account());
        ASSERT_TRUE(account && ::chown(folder.c_str(), account->uid, account->gid) == 0);
        admin_ = std::make_unique<Connection>(cluster.server().url("postgres"));
        admin_->exec("create tablespace small location '" + folder.string() + "'");
        database_ = url.substr(url.find("dbname=") + 7);
        admin_->exec("alter database " + database_ + " set tablespace small");
        db_ = std::make_unique<Connection>(url);
    }
    void TearDown() override {
        if (!db_) return;
        db_.reset();
        disk_->relieve();
        admin_->exec("drop database " + database_ + " with (force)");
        admin_->exec("drop tablespace small");
    }

    std::unique_ptr<SmallDisk> disk_;
    std::unique_ptr<Connection> admin_;
    std::unique_ptr<Connection> db_;
    std::string database_;
};

const char* const one_order =
    "begin; insert into orders select coalesce(max(id), 0) + 1, repeat(md5(random()::text), 200) from "
    "orders; select baton.publish('order_events', 'order.placed', jsonb_build_object('n', max(id)), 'order', "
    "max(id)) from orders; commit";

}  // namespace

TEST_P(FullDisk, who_publishes_fails_as_a_whole_and_everything_that_was_committed_is_delivered) {
    db_->exec(
        "create table orders (id bigint primary key, note text); alter table orders alter note set storage "
        "external; "
        "select baton.create_outbox('order_events'), baton.create_consumer_group('billing', 'order_events', "
        "'earliest')");
    db_->exec(one_order);
    disk_->fill();
    std::string refused;
    for (int n = 0; n < 2000 && refused.empty(); ++n) {
        try {
            db_->exec(one_order);
        } catch (const SqlError& error) {
            refused = error.sqlstate();
            db_->exec("rollback");
        }
    }
    EXPECT_EQ(refused, "53100") << "the disk was never full";
    const auto orders = db_->value("select count(*) from orders");
    EXPECT_EQ(db_->value("select count(*) from order_events"), orders)
        << "an order and its event, or neither";
    disk_->relieve();
    db_->exec(one_order);
    EXPECT_EQ(db_->value("select count(*) - 1 from orders"), orders) << "writers go on";
    EXPECT_EQ(
        db_->value("select string_agg(p.payload ->> 'n', ',' order by p.id) = (select string_agg(id::text, "
                   "',' order by id) from orders) from baton.poll_outbox('billing', 'c', 10000) p"),
        "t")
        << "what was committed comes, in order, and nothing else";
}

INSTANTIATE_TEST_SUITE_P(Forms, FullDisk, testing::Values(Form::extension, Form::plain),
                         [](const auto& form) { return name_of(form.param); });
