// The module's parameters: baton.<name> over the stored value over the default.

#include <gtest/gtest.h>

#include "support/cluster.hpp"

using namespace baton;
using namespace baton::test;

namespace {

class Parameters : public testing::Test {
  protected:
    std::string sqlstate_of(const std::string& sql) {
        try {
            db.exec(sql);
        } catch (const SqlError& error) {
            return error.sqlstate();
        }
        return "";
    }

    std::string setting(const std::string& name) { return db.value("select baton.setting($1)", {name}); }

    Connection db{shared_cluster(Form::extension).fresh_database()};
};

}  // namespace

TEST_F(Parameters, every_setting_of_the_core_is_a_parameter_of_the_module) {
    EXPECT_EQ(db.value("select coalesce(string_agg(name, ', '), '') from baton.setting_defaults d "
                       "where not stored_only and not exists (select from pg_settings s where s.name = "
                       "'baton.' || d.name and "
                       "s.short_desc = d.description)"),
              "");
    EXPECT_EQ(db.value("select count(*) from pg_settings where name = 'baton.tenant_id'"), "1");
}

TEST_F(Parameters, an_unset_one_falls_through_to_the_stored_value_and_the_default) {
    EXPECT_EQ(setting("outbox_storage_critical_mb"), "1024");
    db.exec("select baton.set_setting('outbox_storage_critical_mb', '48')");
    EXPECT_EQ(setting("outbox_storage_critical_mb"), "48");
    db.exec("set baton.outbox_storage_critical_mb = '12'");
    EXPECT_EQ(setting("outbox_storage_critical_mb"), "12");
    db.exec("reset baton.outbox_storage_critical_mb");
    EXPECT_EQ(setting("outbox_storage_critical_mb"), "48");
}

TEST_F(Parameters, what_decides_about_deleting_is_no_parameter) {
    EXPECT_EQ(
        db.value("select count(*) from pg_settings s join baton.setting_defaults d on s.name = 'baton.' "
                 "|| d.name where d.stored_only"),
        "0");
    const auto names = db.query("select name, value from baton.setting_defaults where stored_only");
    EXPECT_GT(names.rows(), 5);
    for (int row = 0; row < names.rows(); ++row) {
        db.exec("set baton." + names.text(row, 0) + " = '0'");
        EXPECT_EQ(setting(names.text(row, 0)), names.text(row, 1)) << names.text(row, 0);
    }
}

TEST_F(Parameters, a_value_of_the_wrong_kind_is_refused) {
    EXPECT_EQ(sqlstate_of("set baton.outbox_storage_critical_mb = 'a day'"), "22023");
    EXPECT_EQ(sqlstate_of("set baton.outbox_storage_critical_mb = '-1'"), "22023");
    EXPECT_EQ(sqlstate_of("set baton.outbox_enabled = 'perhaps'"), "22023");
    EXPECT_EQ(sqlstate_of("set baton.outbox_enabled = 'off'"), "");
    EXPECT_EQ(sqlstate_of("set baton.outbox_storage_critical_mb = '9999999999'"), "");
}

TEST_F(Parameters, a_parameter_of_another_version_is_left_alone) {
    EXPECT_EQ(sqlstate_of("set baton.of_tomorrow = 'x'"), "");
    EXPECT_EQ(db.value("select current_setting('baton.of_tomorrow')"), "x");
}
