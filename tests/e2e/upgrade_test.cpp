// An upgraded installation is the same as a fresh one, down to the last comment and grant, in both forms.
//
// The released versions are the files in sql/released; each is installed, upgraded by the real program with
// the real update scripts, and compared. That the comparison sees what it should is shown on a version made
// up here: this one without a function, and update scripts that bring it back with and without a fault.

#include <gtest/gtest.h>

#include <map>

#include "base/file.hpp"
#include "baton/version.hpp"
#include "support/catalog.hpp"
#include "support/cluster.hpp"
#include "support/program.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

const fs::path source_folder = BATON_SOURCE;

// A server without the worker, which would change what is compared.
Cluster& quiet_cluster(Form form) {
    static std::map<Form, std::unique_ptr<Cluster>> clusters;
    auto& cluster = clusters[form];
    if (!cluster) cluster = std::make_unique<Cluster>(Cluster::Options{form, false, {}});
    return *cluster;
}

// One released version in one form, as the file that installs it.
struct Release {
    std::string version;
    Form form;
    fs::path script;
};

// sql/released holds baton--X.sql (the extension) and baton--X.plain.sql for every released version X.
std::vector<Release> releases_in(const fs::path& folder) {
    std::vector<Release> releases;
    for (const auto& entry : fs::directory_iterator(folder)) {
        std::string name = entry.path().filename().string();
        if (!name.starts_with("baton--") || !name.ends_with(".sql")) continue;
        name = name.substr(7, name.size() - 7 - 4);
        const bool plain = name.ends_with(".plain");
        if (plain) name.resize(name.size() - 6);
        releases.push_back({name, plain ? Form::plain : Form::extension, entry.path()});
    }
    return releases;
}

std::string assemble(Form form, const fs::path& update) {
    const auto outcome =
        run({.argv = {(source_folder / "scripts/assemble_sql").string(),
                      form == Form::extension ? "extension" : "sql", version(), update.string()}});
    if (outcome.exit_code != 0) throw Error("the update could not be assembled: " + outcome.output);
    return outcome.output;
}

// A copy of this build's share folder with more update scripts in it, for the program and for the server.
class Share {
  public:
    explicit Share(Cluster& cluster) : cluster_(cluster) {
        fs::copy(build_folder() / "share/baton", folder_ / "share", fs::copy_options::recursive);
    }
    ~Share() {
        for (const auto& file : added_) fs::remove(file);
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    void add_version(const std::string& version, const fs::path& script) {
        if (cluster_.form() == Form::extension)
            add_to_server("baton--" + version + ".sql", read_text(script));
    }
    void add_update(const fs::path& source) {
        const auto name = source.filename().string();
        if (cluster_.form() == Form::extension)
            add_to_server(name, assemble(Form::extension, source));
        else
            write_text(folder_ / "share/updates" / name, assemble(Form::plain, source));
    }
    std::string path() const { return (folder_ / "share").string(); }
    fs::path scratch(const std::string& name) const { return folder_ / name; }

  private:
    void add_to_server(const std::string& name, const std::string& text) {
        for (const auto& entry :
             fs::recursive_directory_iterator(cluster_.server().folder() / "root/share")) {
            if (entry.path().filename() != "baton.control") continue;
            const auto file = entry.path().parent_path() / name;
            if (!fs::exists(file)) added_.push_back(file);
            write_text(file, text);
            return;
        }
        throw Error("the server has no extension folder");
    }

    Cluster& cluster_;
    TemporaryFolder folder_;
    std::vector<fs::path> added_;
};

// Install an old version in a new database; returns its address.
std::string install_old(Cluster& cluster, const Release& release) {
    const auto url = cluster.empty_database();
    Connection db(url);
    if (release.form == Form::extension)
        db.exec("create extension baton version '" + release.version + "'");
    else
        db.exec(read_text(release.script));
    return url;
}

// Upgrade with the program, and compare with a fresh installation made by the program.
std::vector<std::string> upgrade_and_compare(Cluster& cluster, const Share& share, const std::string& url) {
    const Environment environment{{"BATON_SHARE", share.path()}};
    const auto upgraded = run_baton({"init", "--db", url}, environment);
    EXPECT_EQ(upgraded.exit_code, 0) << upgraded.errors;
    EXPECT_NE(upgraded.output.find("was upgraded from"), std::string::npos) << upgraded.output;
    const auto fresh = cluster.empty_database();
    EXPECT_EQ(run_baton({"init", "--db", fresh}, environment).exit_code, 0);
    Connection expected(fresh);
    Connection found(url);
    return differences(describe_catalog(expected), describe_catalog(found));
}

std::string join(const std::vector<std::string>& lines) {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
}

// This version without baton.uuid_v7_time, called 0.0.1; and the script that brings the function back.
class MadeUpVersion {
  public:
    MadeUpVersion(Cluster& cluster, Share& share) : share_(share) {
        Connection db(cluster.fresh_database());
        definition = db.value("select pg_get_functiondef('baton.uuid_v7_time(uuid)'::regprocedure)") + ";\n";
        comment =
            "comment on function baton.uuid_v7_time(uuid) is " +
            db.escape_literal(db.value("select obj_description('baton.uuid_v7_time(uuid)'::regprocedure)")) +
            ";\n";
        privileges =
            "select baton_internal.declare_privileges('execute', "
            "'{baton_producer,baton_consumer,baton_relay,baton_operator,"
            "baton_viewer}', '{uuid_v7_time}');\n";
        const bool extension = cluster.form() == Form::extension;
        const fs::path current = extension ? "baton--" + std::string(version()) + ".sql" : "baton.sql";
        release = {"0.0.1", cluster.form(), share.scratch("old.sql")};
        write_text(release.script,
                   read_text(build_folder() / "share/baton" / current) +
                       "drop function baton.uuid_v7_time(uuid);\n"
                       "delete from baton_internal.role_privileges where object = 'uuid_v7_time';\n"
                       "update baton.installation set version = '0.0.1';\n");
        share.add_version("0.0.1", release.script);
    }
    void updates_by(const std::string& from, const std::string& to, const std::string& text) {
        const auto source = share_.scratch("baton--" + from + "--" + to + ".sql");
        write_text(source, text);
        share_.add_update(source);
    }

    Release release;
    std::string definition;
    std::string comment;
    std::string privileges;

  private:
    Share& share_;
};

class Upgrade : public testing::TestWithParam<Form> {
  protected:
    Cluster& cluster_ = quiet_cluster(GetParam());
    Share share_{cluster_};
};

// The same, with an old version at hand.
class MadeUp : public Upgrade {
  protected:
    std::vector<std::string> upgrade_by(const std::string& update) {
        old_.updates_by("0.0.1", version(), update);
        return upgrade_and_compare(cluster_, share_, install_old(cluster_, old_.release));
    }
    MadeUpVersion old_{cluster_, share_};
};

const auto each_form = testing::Values(Form::extension, Form::plain);
const auto form_name = [](const auto& info) { return std::string(name_of(info.param)); };

}  // namespace

INSTANTIATE_TEST_SUITE_P(Forms, Upgrade, each_form, form_name);
INSTANTIATE_TEST_SUITE_P(Forms, MadeUp, each_form, form_name);

TEST_P(Upgrade, every_released_version_becomes_the_same_as_a_fresh_installation) {
    int compared = 0;
    for (const auto& release : releases_in(source_folder / "sql/released")) {
        if (release.form != GetParam()) continue;
        ASSERT_NE(release.version, version()) << "raise the version in CMakeLists.txt after a release";
        share_.add_version(release.version, release.script);
        const auto different = upgrade_and_compare(cluster_, share_, install_old(cluster_, release));
        EXPECT_TRUE(different.empty()) << "from " << release.version << ":\n" << join(different);
        ++compared;
    }
    if (compared == 0) GTEST_SKIP() << "no version has been released yet";
}

TEST_P(MadeUp, a_whole_update_leaves_no_difference) {
    const auto different = upgrade_by(old_.definition + old_.comment + old_.privileges);
    EXPECT_TRUE(different.empty()) << join(different);
}

TEST_P(MadeUp, several_steps_are_taken_in_order) {
    old_.updates_by("0.0.1", "0.0.2", old_.definition);
    old_.updates_by("0.0.2", version(), old_.comment + old_.privileges);
    const auto different = upgrade_and_compare(cluster_, share_, install_old(cluster_, old_.release));
    EXPECT_TRUE(different.empty()) << join(different);
}

TEST_P(MadeUp, lines_for_one_form_reach_only_that_form) {
    const auto different = upgrade_by(
        "-- only: extension\ncreate table baton.only_extension ();\n-- only: sql\n"
        "create table baton.only_plain ();\n-- only: both\n" +
        old_.definition + old_.comment + old_.privileges);
    const std::string mine = GetParam() == Form::extension ? "only_extension" : "only_plain";
    const std::string other = GetParam() == Form::extension ? "only_plain" : "only_extension";
    EXPECT_NE(join(different).find(mine), std::string::npos);
    EXPECT_EQ(join(different).find(other), std::string::npos);
}

TEST_P(MadeUp, a_missing_object_is_seen) {
    EXPECT_NE(join(upgrade_by("")).find("missing: routine baton.uuid_v7_time(uuid)"), std::string::npos);
}

TEST_P(MadeUp, a_missing_comment_is_seen) {
    const auto different = upgrade_by(old_.definition + old_.privileges);
    ASSERT_EQ(different.size(), 1U) << join(different);
    EXPECT_EQ(different[0], "missing: comment on function baton.uuid_v7_time(uuid)");
}

TEST_P(MadeUp, a_missing_grant_is_seen) {
    EXPECT_NE(join(upgrade_by(old_.definition + old_.comment))
                  .find("different: grants on routine baton.uuid_v7_time(uuid)"),
              std::string::npos);
}

TEST_P(MadeUp, another_body_is_seen) {
    std::string changed = old_.definition;
    changed.replace(changed.find("1000.0"), 6, "1000.1");
    const auto different = upgrade_by(changed + old_.comment + old_.privileges);
    ASSERT_EQ(different.size(), 1U) << join(different);
    EXPECT_TRUE(different[0].starts_with("different: routine baton.uuid_v7_time(uuid)")) << different[0];
}

TEST_P(MadeUp, other_columns_indexes_constraints_and_rows_are_seen) {
    const auto text = join(upgrade_by(
        old_.definition + old_.comment + old_.privileges +
        "alter table baton.settings alter column updated_by drop not null;\n"
        "create index extra on baton.settings (updated_at);\n"
        "alter table baton.installation drop constraint installation_form_check;\n"
        "update baton.setting_defaults set value = '25' where name = 'outbox_retention_hours';\n"));
    for (const char* seen : {"different: column baton.settings.updated_by", "too much: index baton.extra",
                             "missing: constraint baton.installation installation_form_check",
                             "too much: row of baton.setting_defaults"})
        EXPECT_NE(text.find(seen), std::string::npos) << seen << "\n" << text;
}

TEST_P(MadeUp, a_failing_update_leaves_the_old_version_whole) {
    old_.updates_by("0.0.1", version(), old_.definition + "select 1 / 0;\n");
    const auto url = install_old(cluster_, old_.release);
    Connection db(url);
    const auto before = describe_catalog(db);
    const auto ran = run_baton({"init", "--db", url}, {{"BATON_SHARE", share_.path()}});
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("division by zero"), std::string::npos) << ran.errors;
    EXPECT_TRUE(differences(before, describe_catalog(db)).empty());
}
