#include <fstream>

#include "brokers/kafka/tests/server.hpp"
#include "support/jars.hpp"

namespace fs = std::filesystem;

namespace baton::test {

static constexpr const char* kafka_version = "3.9.1";

KafkaServer::KafkaServer()
    : Broker("kafka"),
      jars_(fetch_jars(
          "kafka-" + std::string(kafka_version),
          {"org.apache.kafka:kafka_2.13:" + std::string(kafka_version), "org.slf4j:slf4j-simple:1.7.36"})) {}

void KafkaServer::choose_ports() {
    port_ = find_free_port();
    proxied_port_ = find_free_port();
    controller_port_ = find_free_port();
}

void KafkaServer::write_properties() const {
    const auto at = [](int number) { return "://127.0.0.1:" + std::to_string(number); };
    std::ofstream file(folder() / "server.properties");
    file << "process.roles=broker,controller\nnode.id=1\n"
         << "controller.quorum.voters=1@127.0.0.1:" << controller_port_ << "\n"
         << "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAIN\n"
         << "listener.security.protocol.map=PLAIN:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
         << "listeners=PLAIN" << at(port_) << ",PROXIED" << at(proxied_port_) << ",CONTROLLER"
         << at(controller_port_) << "\n"
         << "advertised.listeners=PLAIN" << at(port_) << ",PROXIED"
         << at(advertised_proxy_port > 0 ? advertised_proxy_port : proxied_port_) << "\n"
         << "log.dirs=" << (folder() / "data").string() << "\n"
         << "auto.create.topics.enable=false\noffsets.topic.replication.factor=1\noffsets.topic.num."
            "partitions=1\n"
         << "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
         << "group.initial.rebalance.delay.ms=0\nnum.network.threads=2\nnum.io.threads=2\n"
         // After a crash a broker waits until its own last registration has run out.
         << "broker.session.timeout.ms=1500\nbroker.heartbeat.interval.ms=300\n"
         << "num.recovery.threads.per.data.dir=1\nlog.cleaner.enable=false\n";
    for (const auto& line : settings) file << line << "\n";
}

std::vector<std::string> KafkaServer::password_settings(const std::string& protocol,
                                                        const std::string& password) {
    return {"listener.security.protocol.map=PLAIN:PLAINTEXT,PROXIED:" + protocol + ",CONTROLLER:PLAINTEXT",
            "listener.name.proxied.sasl.enabled.mechanisms=PLAIN",
            "listener.name.proxied.plain.sasl.jaas.config=org.apache.kafka.common.security.plain."
            "PlainLoginModule required user_relay=\"" +
                password + "\";"};
}

std::vector<std::string> KafkaServer::java(const std::string& main_class) const {
    return {"java",
            "-Xms64m",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
            "-cp",
            (jars_ / "*").string(),
            main_class};
}

void KafkaServer::prepare() {
    fs::remove_all(folder() / "data");
    write_properties();
    Command format;
    format.argv = java("kafka.tools.StorageTool");
    format.argv.insert(format.argv.end(), {"format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c",
                                           (folder() / "server.properties").string()});
    const auto outcome = run(format);
    if (outcome.exit_code != 0) throw Error("cannot format kafka's storage: " + outcome.output);
}

Command KafkaServer::command() {
    write_properties();
    Command how;
    how.argv = java("kafka.Kafka");
    how.argv.push_back((folder() / "server.properties").string());
    how.working_directory = folder();
    return how;
}

bool KafkaServer::ready() {
    return log_contains("Kafka Server started") && accepts_connections(port());
}

}  // namespace baton::test
