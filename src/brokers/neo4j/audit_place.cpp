#include "brokers/neo4j/audit_place.hpp"

#include <thread>

#include "brokers/neo4j/audit_client.hpp"

namespace baton::brokers {

namespace {

using std::chrono::milliseconds;

class Neo4jPlace final : public AuditPlace {
  public:
    explicit Neo4jPlace(const PlaceRequest& request) : name_(request.name), client_(request.reader) {}
    void create() override { client_.make(name_); }
    Values sink_values() override {
        return {{"statement", Neo4jClient::statement(name_)}, {"marks", marks()}, {"payload", "text"}};
    }
    std::vector<Received> follow(milliseconds patience) override {
        std::vector<Received> news;
        followed_ = client_.read(name_, followed_, news);
        if (news.empty()) {
            std::this_thread::sleep_for(std::min(patience, milliseconds(50)));
            followed_ = client_.read(name_, followed_, news);
        }
        return news;
    }
    void forget() override {}
    std::vector<Received> read_all() override {
        std::vector<Received> all;
        client_.read(name_, 0, all);
        return all;
    }
    void remove() override { client_.remove(name_, marks()); }
    bool deduplicates() const override { return true; }

  private:
    std::string marks() const { return name_ + "_mark"; }

    std::string name_;
    Neo4jClient client_;
    std::int64_t followed_ = 0;
};

}  // namespace

std::unique_ptr<AuditPlace> make_neo4j_place(const PlaceRequest& request) {
    return std::make_unique<Neo4jPlace>(request);
}

}  // namespace baton::brokers
