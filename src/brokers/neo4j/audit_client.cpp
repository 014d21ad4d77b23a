#include "brokers/neo4j/audit_client.hpp"

#include "wire/encoding.hpp"

namespace baton::brokers {

using nlohmann::json;

namespace {

constexpr std::int64_t page = 500;

std::string counter_of(const std::string& label) {
    return neo4j_name(label + "_counter");
}

Received received(const json& row) {
    const auto text = [&row](std::size_t place) {
        return row.at(place).is_string() ? row.at(place).get<std::string>() : std::string();
    };
    Received got;
    got.id = text(1);
    got.key = text(2);
    got.body = text(3);
    if (text(4) == "base64") got.body = wire::base64_decode(got.body).value_or("");
    for (std::size_t i = 0; i < row.at(5).size(); ++i)
        got.headers[row.at(5).at(i).get<std::string>()] = row.at(6).at(i).get<std::string>();
    return got;
}

}  // namespace

Neo4jClient::Neo4jClient(const relay::Settings& settings) : access_(settings) {
    access_.options().max_response = std::size_t{256} << 20;
}

// There is one counter: two transactions that both find none would make two.
void Neo4jClient::make(const std::string& label) const {
    access_.ask("MERGE (counter:" + counter_of(label) + ") ON CREATE SET counter.number = 0", json::object());
}

// To write to the counter locks it until the transaction ends: numbers are given once, and become visible in
// their order.
std::string Neo4jClient::statement(const std::string& label) {
    return "MATCH (counter:" + counter_of(label) +
           ") SET counter.held = true WITH event, counter SET counter.number = counter.number + 1\n"
           "CREATE (:" +
           neo4j_name(label) +
           " {number: counter.number, id: event.id, key: event.key, body: event.payload, "
           "encoding: event.encoding, names: keys(event.headers), "
           "texts: [name IN keys(event.headers) | event.headers[name]]})";
}

std::int64_t Neo4jClient::read(const std::string& label, std::int64_t after,
                               std::vector<Received>& all) const {
    for (;;) {
        const json rows = access_.ask("MATCH (n:" + neo4j_name(label) +
                                          ") WHERE n.number > $after RETURN n.number, n.id, n.key, n.body, "
                                          "n.encoding, n.names, n.texts ORDER BY n.number LIMIT $page",
                                      {{"after", after}, {"page", page}});
        for (const auto& row : rows) {
            all.push_back(received(row));
            after = row.at(0).get<std::int64_t>();
        }
        if (rows.size() < static_cast<std::size_t>(page)) return after;
    }
}

void Neo4jClient::remove(const std::string& label, const std::string& marks) const {
    for (const auto& name : {neo4j_name(label), counter_of(label), neo4j_name(marks)})
        access_.ask("MATCH (n:" + name + ") DETACH DELETE n", json::object());
    access_.ask("DROP CONSTRAINT " + neo4j_name(marks + "_id") + " IF EXISTS", json::object());
}

}  // namespace baton::brokers
