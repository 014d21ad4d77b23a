#include "brokers/sqs/tests/server.hpp"

#include <curl/curl.h>

#include <fstream>
#include <memory>

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

std::string ask_sqs(int port, const std::string& action, const std::string& body) {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(), curl_easy_cleanup);
    const std::string url = "http://127.0.0.1:" + std::to_string(port) + "/";
    std::string answer;
    curl_slist* headers = curl_slist_append(nullptr, "content-type: application/x-amz-json-1.0");
    headers = curl_slist_append(headers, ("x-amz-target: AmazonSQS." + action).c_str());
    curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy.get(), CURLOPT_COPYPOSTFIELDS, body.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(
        easy.get(), CURLOPT_WRITEFUNCTION,
        +[](char* bytes, std::size_t, std::size_t size, std::string* into) {
            into->append(bytes, size);
            return size;
        });
    const CURLcode result = curl_easy_perform(easy.get());
    curl_slist_free_all(headers);
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    if (result != CURLE_OK || status != 200)
        throw Error(action + " failed: " + curl_easy_strerror(result) + " " + answer);
    return answer;
}

}  // namespace baton::test
