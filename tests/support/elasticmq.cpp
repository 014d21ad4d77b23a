#include "support/elasticmq.hpp"

#include <fstream>

#include "support/jars.hpp"

namespace baton::test {

ElasticServer::ElasticServer()
    : Broker("elasticmq"),
      jars_(fetch_jars("elasticmq-1.6.16", {"org.elasticmq:elasticmq-server_2.13:1.6.16"})) {}

std::string ElasticServer::queue_url(const std::string& name, int port) const {
    return "http://127.0.0.1:" + std::to_string(port) + "/000000000000/" + name;
}

Command ElasticServer::command() {
    const auto file = folder() / "elasticmq.conf";
    std::ofstream configuration(file);
    configuration << "include classpath(\"application.conf\")\n"
                  << "node-address { host = \"127.0.0.1\", port = " << port() << " }\n"
                  << "rest-sqs { bind-hostname = \"127.0.0.1\", bind-port = " << port()
                  << ", sqs-limits = strict }\n"
                  << "rest-stats { enabled = false }\n"
                  << "queues-storage { enabled = false, path = \"" << (folder() / "queues.conf").string()
                  << "\" }\n"
                  // Without a delay before writing: what was acknowledged survives a kill.
                  << "messages-storage { enabled = true, uri = \"jdbc:h2:" << (folder() / "messages").string()
                  << ";WRITE_DELAY=0\" }\n";
    configuration.close();
    Command how;
    how.argv = {"java",
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dconfig.file=" + file.string(),
                "-cp",
                (jars_ / "*").string(),
                "org.elasticmq.server.Main"};
    how.working_directory = folder();
    return how;
}

bool ElasticServer::ready() {
    return log_contains("=== ElasticMQ server");
}

}  // namespace baton::test
