#include "brokers/amqp1/tests/server.hpp"

#include <atomic>

#include "base/file.hpp"
#include "brokers/amqp1/message.hpp"
#include "brokers/amqp1/receiver.hpp"
#include "support/cluster.hpp"
#include "support/jars.hpp"

namespace fs = std::filesystem;

namespace baton::test {

namespace {

constexpr const char* artemis_version = "2.44.0";
constexpr const char* auditor = "auditor";

std::string permissions(const std::string& match, const std::string& senders) {
    std::string text = "<security-setting match=\"" + match + "\">";
    for (const char* right : {"createNonDurableQueue", "deleteNonDurableQueue", "createDurableQueue",
                              "deleteDurableQueue", "createAddress", "deleteAddress", "consume", "browse"})
        text += std::string("<permission type=\"") + right + "\" roles=\"all\"/>";
    return text + "<permission type=\"send\" roles=\"" + senders +
           "\"/><permission type=\"manage\" roles=\"audit\"/></security-setting>";
}

std::string limits(const std::string& match, const std::string& more) {
    return "<address-setting match=\"" + match +
           "\"><max-delivery-attempts>-1</max-delivery-attempts><redelivery-delay>0</redelivery-delay>"
           "<auto-delete-queues>false</auto-delete-queues>"
           "<auto-delete-addresses>false</auto-delete-addresses>" +
           more + "</address-setting>";
}

// A question to the broker about one of its queues, as a message.
std::string write_question(const std::string& queue, const std::string& attribute,
                           const std::string& answer_to) {
    const std::unique_ptr<pn_message_t, decltype(&pn_message_free)> message(pn_message(), pn_message_free);
    pn_message_set_reply_to(message.get(), answer_to.c_str());
    pn_data_t* properties = pn_message_properties(message.get());
    pn_data_put_map(properties);
    pn_data_enter(properties);
    const std::map<std::string, std::string> texts{{"_AMQ_ResourceName", "queue." + queue},
                                                   {"_AMQ_Attribute", attribute}};
    for (const auto& [name, value] : texts) {
        pn_data_put_string(properties, pn_bytes(name.size(), name.data()));
        pn_data_put_string(properties, pn_bytes(value.size(), value.data()));
    }
    pn_data_exit(properties);
    std::string bytes(4096, '\0');
    std::size_t size = bytes.size();
    if (pn_message_encode(message.get(), bytes.data(), &size) != 0) throw Error("cannot write a question");
    bytes.resize(size);
    return bytes;
}

}  // namespace

ArtemisServer::ArtemisServer()
    : Broker("artemis"),
      jars_(fetch_jars("artemis-" + std::string(artemis_version),
                       {"org.apache.activemq:artemis-cli:" + std::string(artemis_version),
                        "org.apache.activemq:artemis-amqp-protocol:" + std::string(artemis_version),
                        "org.slf4j:slf4j-simple:2.0.17"})) {}

void ArtemisServer::choose_ports() {
    port_ = find_free_port();
    tls_port_ = find_free_port();
}

brokers::Amqp1Server ArtemisServer::straight() const {
    relay::Settings settings("auditor");
    settings.set("url", url());
    settings.set("username", auditor);
    settings.set("password", auditor);
    return brokers::read_amqp1_server(settings);
}

void ArtemisServer::write_users() const {
    std::string passwords = std::string(auditor) + "=" + auditor + "\n";
    std::string all = "all=certificate," + std::string(auditor);
    for (const auto& [name, password] : users) {
        passwords += name + "=" + password + "\n";
        all += "," + name;
    }
    write_text(folder() / "etc/users.properties", passwords);
    write_text(folder() / "etc/roles.properties", all + "\naudit=" + auditor + "\n");
    write_text(folder() / "etc/certificates.properties", "certificate=CN=localhost\n");
}

void ArtemisServer::write_broker() const {
    std::string text =
        "<configuration xmlns=\"urn:activemq\"><core xmlns=\"urn:activemq:core\"><name>baton</name>"
        "<persistence-enabled>true</persistence-enabled><journal-type>NIO</journal-type>"
        // A killed process leaves what it gave to the kernel, and more than that is not tried here.
        "<journal-datasync>false</journal-datasync><journal-buffer-timeout>100000</journal-buffer-timeout>"
        "<journal-min-files>2</journal-min-files><journal-pool-files>2</journal-pool-files>"
        "<journal-file-size>4M</journal-file-size><critical-analyzer>false</critical-analyzer>"
        "<max-disk-usage>-1</max-disk-usage><disk-scan-period>-1</disk-scan-period>"
        "<configuration-file-refresh-period>50</configuration-file-refresh-period>";
    for (const char* kind : {"paging", "bindings", "journal", "large-messages"})
        text += std::string("<") + kind + "-directory>" + (folder() / "data" / kind).string() + "</" + kind +
                "-directory>";
    text += "<acceptors><acceptor name=\"plain\">tcp://127.0.0.1:" + std::to_string(port()) +
            "?protocols=AMQP</acceptor>";
    if (certificate)
        text += "<acceptor name=\"tls\">tcp://127.0.0.1:" + std::to_string(tls_port_) +
                "?protocols=AMQP;saslMechanisms=EXTERNAL,PLAIN;sslEnabled=true;wantClientAuth=true;"
                "keyStoreType=PEM;keyStorePath=" +
                (folder() / "tls.pem").string() +
                ";trustStoreType=PEM;trustStorePath=" + certificate->cert.string() + "</acceptor>";
    text += "</acceptors><security-settings>" + permissions("#", "all");
    for (const auto& address : denied_) text += permissions(address, "audit");
    const std::string by_hand =
        "<auto-create-queues>false</auto-create-queues>"
        "<auto-create-addresses>false</auto-create-addresses>";
    text += "</security-settings><address-settings>" + limits("#", "") + limits("missing.#", by_hand) +
            limits("not-there", by_hand) +
            limits(small_address(),
                   "<max-size-bytes>20000</max-size-bytes><address-full-policy>FAIL</address-full-policy>") +
            "</address-settings><addresses>";
    for (const auto& queue : queues_)
        text +=
            "<address name=\"" + queue + "\"><anycast><queue name=\"" + queue + "\"/></anycast></address>";
    write_text(folder() / "broker.new", text + "</addresses></core></configuration>\n");
    fs::rename(folder() / "broker.new", folder() / "etc/broker.xml");
}

Command ArtemisServer::command() {
    fs::create_directories(folder() / "etc");
    fs::create_directories(folder() / "lib");
    const std::string etc = (folder() / "etc").string();
    write_text(etc + "/management.xml",
               "<management-context xmlns=\"http://activemq.apache.org/schema\"/>\n");
    write_text(etc + "/bootstrap.xml",
               "<broker xmlns=\"http://activemq.apache.org/schema\"><jaas-security domain=\"baton\" "
               "certificate-domain=\"certificates\"/><server configuration=\"file:" +
                   etc + "/broker.xml\"/></broker>\n");
    const std::string jaas = "org.apache.activemq.artemis.spi.core.security.jaas.";
    const std::string roles = "org.apache.activemq.jaas.properties.role=\"roles.properties\"";
    write_text(etc + "/login.config",
               "baton { " + jaas +
                   "PropertiesLoginModule required reload=true "
                   "org.apache.activemq.jaas.properties.user=\"users.properties\" " +
                   roles + "; };\ncertificates { " + jaas +
                   "TextFileCertificateLoginModule required "
                   "org.apache.activemq.jaas.textfiledn.user=\"certificates.properties\" "
                   "org.apache.activemq.jaas.textfiledn.role=\"roles.properties\"; };\n");
    if (certificate)
        write_text(folder() / "tls.pem", read_text(certificate->key) + read_text(certificate->cert));
    write_users();
    write_broker();
    Command how;
    how.argv = {"java",
                "-Xms64m",
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dorg.slf4j.simpleLogger.log.org.apache.activemq.artemis.core.server=info",
                "-Dartemis.home=" + folder().string(),
                "-Dartemis.instance=" + folder().string(),
                "-Dartemis.instance.etc=" + etc,
                "-Djava.security.auth.login.config=" + etc + "/login.config",
                "-cp",
                (jars_ / "*").string(),
                "org.apache.activemq.artemis.cli.Artemis",
                "run"};
    how.working_directory = folder();
    return how;
}

bool ArtemisServer::ready() {
    return log_contains("AMQ221007") && accepts_connections(port());  // "Server is now live"
}

void ArtemisServer::wait_until_heard(const std::string& address, bool allowed) const {
    auto server = straight();
    server.user = users.begin()->first;
    server.password = users.begin()->second;
    wait_until("artemis has heard of its new settings", [&] {
        try {
            brokers::Amqp1Connection connection(server, "trial");
            connection.open_wholly();
            connection.need(connection.sender(address), address);
            return allowed;
        } catch (const ConnectionError&) {
            return !allowed;
        }
    });
}

void ArtemisServer::deny(const std::string& address) {
    denied_.insert(address);
    write_broker();
    wait_until_heard(address, false);
}

void ArtemisServer::allow(const std::string& address) {
    denied_.erase(address);
    write_broker();
    wait_until_heard(address, true);
}

void ArtemisServer::add_queue(const std::string& address) {
    queues_.insert(address);
    write_broker();
    wait_until_heard(address, true);
}

std::size_t ArtemisServer::held(const std::string& queue) const {
    static std::atomic<int> count = 0;
    const std::string answers = "answers." + std::to_string(++count);
    auto anything = straight();
    anything.capability.clear();
    brokers::Amqp1Receiver receiver(straight(), answers, answers, 1);
    brokers::Amqp1Connection asking(anything, "question");
    asking.open_wholly();
    pn_link_t* link = asking.sender("activemq.management");
    asking.need(link, "activemq.management");
    const std::string bytes = write_question(queue, "messageCount", answers);
    pn_delivery(link, pn_dtag("q", 1));
    pn_link_send(link, bytes.data(), bytes.size());
    pn_link_advance(link);
    std::string answer;
    wait_until("artemis answers", [&] {
        asking.move();
        while (asking.next() != nullptr) {
        }
        receiver.move();
        auto taken = receiver.take();
        if (!taken) return false;
        intake::BrokerBatch batch;
        answer = brokers::Amqp1Codec().decode(std::move(taken->bytes), batch).body.value_or("");
        receiver.accept(taken->delivery);
        return true;
    });
    receiver.leave(std::chrono::seconds(10));
    if (answer.size() < 3 || answer.front() != '[') throw Error("artemis answers " + answer);
    return std::stoul(answer.substr(1));
}

}  // namespace baton::test
