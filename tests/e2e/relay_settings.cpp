// The settings of the real `baton relay`: where they stand, how they are checked, and how a change is
// followed.

#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "brokers/broker.hpp"
#include "brokers/registry.hpp"
#include "relaying.hpp"

using namespace baton;
using namespace baton::test;

TEST_P(Relaying, changes_of_the_file_and_of_the_catalog_are_followed) {
    write_config(to_file("a.jsonl"));
    auto relay = start("one");
    publish(1, 5);
    wait_for_numbers("a.jsonl", 5);
    std::filesystem::last_write_time(folder / "one.toml",
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    wait_for_log("one", "configuration reloaded");
    write_config("type = \"nosuch\"\n");
    wait_for_log("one", "configuration not reloaded");
    publish(6, 10);
    wait_for_numbers("a.jsonl", 10);
    write_config(to_file("b.jsonl"));
    relay.signal(SIGHUP);
    wait_for_log("one", "settings changed, restarting");
    publish(11, 12);
    wait_until("the new file is written", [&] { return numbers("b.jsonl").size() == 2; });
    admin.query(
        "select baton.set_pipeline('second', jsonb_build_object('source', '{\"outbox\": \"orders\"}'::jsonb, "
        "'sink', "
        "jsonb_build_object('type', 'file', 'path', $1::text)))",
        {(folder / "c.jsonl").string()});
    wait_for_numbers("c.jsonl", 12);
    admin.exec("select baton.disable_pipeline('second')");
    wait_for_log("one", "no longer wanted");
    publish(13, 13);
    wait_until("the other goes on", [&] { return numbers("b.jsonl").size() == 3; });
    admin.exec("select baton.enable_pipeline('second')");
    wait_for_numbers("c.jsonl", 13);
    EXPECT_EQ(numbers("c.jsonl").size(), 13U);
    EXPECT_EQ(admin.value("select owner is not null from baton.list_pipelines()"), "t");
    EXPECT_EQ(relay.stop(), 0);
}

// A name that the file has already is the fault of the pipeline in the catalog, and of no other.
TEST_P(Relaying, a_pipeline_of_the_catalog_with_a_name_of_the_file_stops_none_of_the_file) {
    write_config(to_file("a.jsonl"));
    auto relay = start("one");
    publish(1, 5);
    wait_for_numbers("a.jsonl", 5);
    admin.exec(
        "select baton.set_pipeline('out', '{\"source\": {\"outbox\": \"orders\"}, \"sink\": {\"type\": "
        "\"null\"}}')");
    wait_for_log("one", "is left out");
    admin.query(
        "select baton.set_pipeline('third', jsonb_build_object('source', '{\"outbox\": \"orders\"}'::jsonb, "
        "'sink', jsonb_build_object('type', 'file', 'path', $1::text)))",
        {(folder / "c.jsonl").string()});
    wait_for_numbers("c.jsonl", 5);  // the relay has looked again, and runs what can be
    publish(6, 10);
    wait_for_numbers("a.jsonl", 10);
    EXPECT_EQ(text_of(folder / "one.log").find("no longer wanted"), std::string::npos);
    EXPECT_EQ(relay.stop(), 0);
}

TEST_P(Relaying, a_reload_leaves_unchanged_pipelines_alone) {
    const auto write = [this](const std::string& second) {
        write_config(
            to_file("a.jsonl"),
            "[[pipeline]]\nname = \"second\"\n[pipeline.source]\noutbox = \"orders\"\n[pipeline.sink]\n" +
                to_file(second));
    };
    const auto epoch = [this](const std::string& group) {
        return std::stoi(
            admin.value("select owner_epoch from baton_internal.group_positions join baton.consumer_groups "
                        "using (group_id) where group_name = $1",
                        {group}));
    };
    write("b.jsonl");
    auto relay = start("one");
    publish(1, 10);
    wait_for_numbers("a.jsonl", 10);
    wait_for_numbers("b.jsonl", 10);
    const int first = epoch("out");
    const int second = epoch("second");
    write("c.jsonl");
    relay.signal(SIGHUP);
    wait_for_log("one", "settings changed, restarting");
    publish(11, 20);
    wait_until("the changed one writes to its new place", [&] {
        auto all = numbers("b.jsonl");
        const auto moved = numbers("c.jsonl");
        all.insert(all.end(), moved.begin(), moved.end());
        return !moved.empty() && std::set<int>(all.begin(), all.end()).size() == 20;
    });
    wait_for_numbers("a.jsonl", 20);
    EXPECT_EQ(epoch("out"), first);
    EXPECT_GT(epoch("second"), second);
    EXPECT_EQ(relay.stop(), 0);
}

// Every place where a secret can stand, at servers that are not there: what goes wrong is told without it.
TEST_P(Relaying, secrets_are_in_no_message_log_or_metric) {
    const std::string secret = "hush-0b7f5d";
    const std::string webhook = "whsec_aHVzaC0wYjdmNWRodXNoLTBiN2Y1ZGh1c2gtMGI3ZjVk";
    const std::string none = "127.0.0.1:" + std::to_string(find_free_port());
    std::map<std::string, std::string> sinks{
        {"redis", "url = \"redis://me:" + secret + "@" + none + "\"\nstream = \"s\"\n"},
        {"redis2", "url = \"redis://" + none + "\"\nstream = \"s\"\nusername = \"me\"\npassword = \"" +
                       secret + "\"\n"},
        {"rabbitmq", "url = \"amqp://me:" + secret + "@" + none + "/\"\nrouting_key = \"q\"\n"},
        {"amqp1", "url = \"amqp://me:" + secret + "@" + none + "\"\naddress = \"q\"\n"},
        {"mqtt", "url = \"mqtt://me:" + secret + "@" + none + "\"\ntopic = \"t\"\n"},
        {"neo4j", "url = \"http://me:" + secret + "@" + none + "\"\nstatement = \"CREATE ()\"\n"},
        {"nats", "url = \"nats://me:" + secret + "@" + none + "\"\nsubject = \"s\"\n"},
        {"nats2", "url = \"nats://" + none + "\"\nsubject = \"s\"\ntoken = \"" + secret + "\"\n"},
        {"kafka", "brokers = \"" + none +
                      "\"\ntopic = \"t\"\nproperties.security.protocol = \"SASL_PLAINTEXT\"\n"
                      "properties.sasl.mechanism = \"PLAIN\"\nproperties.sasl.username = \"me\"\n"
                      "properties.sasl.password = \"" +
                      secret + "\"\n"},
        {"http", "url = \"http://me:" + secret + "@" + none + "/hook\"\nallow_private = true\nsecret = \"" +
                     webhook + "\"\n"},
        {"sqs", "queue = \"http://" + none + "/1/q\"\nregion = \"x\"\naccess_key = \"a\"\nsecret_key = \"" +
                    secret + "\"\n"},
        {"postgres", "url = \"host=127.0.0.1 port=" + none.substr(none.find(':') + 1) +
                         " user=me password=" + secret + "\"\ninbox = \"i\"\n"}};
#ifdef __SANITIZE_THREAD__
    sinks.erase("kafka");  // its library and this sanitizer do not get along
#endif
    const int port = find_free_port();
    std::ofstream file(folder / "one.toml");
    file << "[relay]\ndrain = \"1s\"\n[server]\nlisten = \"127.0.0.1:" << port << "\"\n";
    for (const auto& [name, lines] : sinks)
        file << "[[pipeline]]\nname = \"" << name
             << "\"\n[pipeline.source]\noutbox = \"orders\"\n[pipeline.sink]\n"
             << "type = \"" << name.substr(0, name.find('2')) << "\"\n"
             << lines;
    file.close();
    publish(1, 1);
    auto relay = start("one");
    httplib::Client http("127.0.0.1", port);
    std::string told;
    wait_until("every sink is in trouble", [&] {
        const auto answer = http.Get("/readyz");
        if (!answer) return false;
        told = answer->body;
        return std::all_of(sinks.begin(), sinks.end(),
                           [&](const auto& it) { return told.find(it.first + ": ") != std::string::npos; });
    });
    const auto metrics = http.Get("/metrics");
    ASSERT_TRUE(metrics);
    EXPECT_EQ(relay.stop(), 0);
    const auto checked =
        run_baton({"relay", "--db", url, "--check", "--config", (folder / "one.toml").string()});
    EXPECT_EQ(checked.exit_code, 1);
    for (const auto& text : {told, metrics->body, text_of(folder / "one.log"), text_of(folder / "one.out"),
                             checked.output, checked.errors})
        for (const auto& hidden : {secret, webhook}) EXPECT_EQ(text.find(hidden), std::string::npos) << text;
}

TEST_P(Relaying, check_validates_and_connects_without_sending) {
    publish(1, 1);
    write_config(to_file("a.jsonl"));
    const std::vector<std::string> words{"relay",   "--db",     url,
                                         "--check", "--config", (folder / "one.toml").string()};
    auto ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.output, "pipeline out: ok\n");
    EXPECT_TRUE(numbers("a.jsonl").empty());
    EXPECT_EQ(admin.value("select count(*) from baton.consumer_groups"), "0");
    write_config("type = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n");
    ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("pipeline out"), std::string::npos) << ran.errors;
    write_config("type = \"file\"\n");
    ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("path is missing"), std::string::npos) << ran.errors;
    admin.exec("select baton.drop_outbox('orders')");
    write_config(to_file("a.jsonl"));
    ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("there is no table \"orders\""), std::string::npos) << ran.errors;
}

TEST_P(Relaying, a_check_of_the_settings_connects_nowhere_and_finds_everything) {
    const std::vector<std::string> words{"relay",
                                         "--db",
                                         "host=127.0.0.1 port=1",
                                         "--check=settings",
                                         "--config",
                                         (folder / "one.toml").string()};
    write_config(to_file("a.jsonl"));
    auto ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    EXPECT_EQ(ran.output, "pipeline out: settings ok\n");
    write_config("type = \"file\"\n",
                 "[log]\nlevel = \"loud\"\n[relay]\ndrian = \"1s\"\n[server]\nlisten = \"127.0.0.1:91x7\"\n"
                 "[[pipeline]]\nname = \"second\"\n[pipeline.source]\noutbox = \"orders\"\n"
                 "[pipeline.sink]\ntype = \"kafak\"\n");
    ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    for (const auto* finding :
         {"one.toml:2: log: level is \"loud\"", "one.toml:4: relay: drian is not a setting",
          "\"127.0.0.1:91x7\" is no address", "one.toml:12: pipeline second, sink: type is \"kafak\"",
          "one.toml:18: pipeline out, sink: path is missing"})
        EXPECT_NE(ran.errors.find(finding), std::string::npos) << finding << "\n" << ran.errors;
}

TEST_P(Relaying, a_check_finds_a_destination_that_is_not_there) {
    write_config(to_inbox());
    const std::vector<std::string> words{"relay",   "--db",     url,
                                         "--check", "--config", (folder / "one.toml").string()};
    auto ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("one.toml:6: pipeline out, sink: "), std::string::npos) << ran.errors;
    EXPECT_NE(ran.errors.find("arrivals"), std::string::npos) << ran.errors;
    admin.exec("select baton.create_inbox('arrivals')");
    ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
}

TEST_P(Relaying, a_reload_that_failed_and_a_pipeline_that_cannot_be_show_until_they_are_mended) {
    const int port = find_free_port();
    const std::string server = "[server]\nlisten = \"127.0.0.1:" + std::to_string(port) + "\"\n";
    write_config(to_file("a.jsonl"), server);
    auto relay = start("one");
    httplib::Client http("127.0.0.1", port);
    const auto says = [&http](const char* path, int status, const std::string& words) {
        const auto answer = http.Get(path);
        return answer && answer->status == status && answer->body.find(words) != std::string::npos;
    };
    wait_until("it is ready", [&] { return says("/readyz", 200, "ok"); });
    write_config("type = \"nosuch\"\n", server);
    wait_until("the failed reload shows", [&] { return says("/readyz", 503, "nosuch"); });
    EXPECT_TRUE(says("/metrics", 200, "\nbaton_configuration_good 0\n"));
    write_config(to_file("b.jsonl"), server);
    wait_until("it is ready again", [&] { return says("/readyz", 200, "ok"); });
    EXPECT_TRUE(says("/metrics", 200, "\nbaton_configuration_good 1\n"));
    admin.exec(
        "select baton.set_pipeline('odd', '{\"source\": {\"outbox\": \"orders\"}, \"sink\": "
        "{\"type\": \"file\"}}')");
    wait_until("the pipeline that is left out shows", [&] { return says("/readyz", 503, "odd"); });
    admin.exec("select baton.delete_pipeline('odd')");
    wait_until("it is ready once more", [&] { return says("/readyz", 200, "ok"); });
    EXPECT_EQ(relay.stop(), 0);
}

TEST_P(Relaying, a_folder_of_files_is_read_as_one_and_an_empty_folder_is_refused) {
    std::filesystem::create_directory(folder / "conf");
    const std::vector<std::string> words{"relay", "--db", url, "--config", (folder / "conf").string()};
    auto ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("has no *.toml"), std::string::npos) << ran.errors;
    const auto pipeline = [this](const std::string& name) {
        return "[[pipeline]]\nname = \"" + name +
               "\"\n[pipeline.source]\noutbox = \"orders\"\n[pipeline.sink]\n" + to_file(name + ".jsonl");
    };
    std::ofstream(folder / "conf/b.toml") << pipeline("b");
    std::ofstream(folder / "conf/a.toml") << "[relay]\ndrain = \"5s\"\n" << pipeline("a");
    std::filesystem::create_symlink("somebody@somewhere.1", folder / "conf/.#a.toml");  // an editor's lock
    publish(1, 3);
    auto relay = start_baton(words, folder / "conf.out", folder / "conf.log");
    wait_for_numbers("a.jsonl", 3);
    wait_for_numbers("b.jsonl", 3);
    std::ofstream(folder / "conf/c.toml") << pipeline("c");
    wait_for_numbers("c.jsonl", 3);
    EXPECT_EQ(relay.stop(), 0);
    std::ofstream(folder / "conf/d.toml") << "[relay]\ndrain = \"6s\"\n" << pipeline("a");
    ran = run_baton(words);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.errors.find("d.toml:1: [relay] is at "), std::string::npos) << ran.errors;
    std::ofstream(folder / "conf/d.toml") << pipeline("a");
    ran = run_baton(words);
    EXPECT_NE(ran.errors.find("d.toml:2: pipeline a: name is used at "), std::string::npos) << ran.errors;
}

TEST_P(Relaying, the_catalog_knows_the_same_sources_and_sinks_as_the_relay) {
    std::vector<std::string> known;
    for (const auto& broker : brokers::registry())
        if (broker.make_sink != nullptr) known.push_back(broker.name);
    EXPECT_EQ(admin.value("select array(select unnest(baton_internal.known_sinks()) order by 1) = $1::text[]",
                          {postgres::array_literal(known)}),
              "t");
    known = {"outbox"};
    for (const auto& broker : brokers::registry())
        if (broker.make_source != nullptr || broker.has_tables) known.push_back(broker.name);
    std::sort(known.begin(), known.end());
    EXPECT_EQ(
        admin.value("select array(select unnest(baton_internal.known_sources()) order by 1) = $1::text[]",
                    {postgres::array_literal(known)}),
        "t");
}
