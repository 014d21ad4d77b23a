#pragma once
// Random transactions on the tables of a random schema, by several sessions at once: with savepoints, with
// rollbacks, some of which stay open for long and commit late. The seed decides the statements; how the
// sessions mix is up to the machine.

#include <atomic>
#include <functional>

#include "isolation/stream_grammar.hpp"
#include "support/cluster.hpp"

namespace baton::test {

class StreamWorkload {
  public:
    StreamWorkload(std::string url, const RandomSchema& schema, std::uint64_t seed)
        : url_(std::move(url)), schema_(schema), seed_(seed) {}

    // The first rows.
    void fill();
    // Let writers work until it is enough; one more keeps its transactions open over many of theirs. Returns
    // when all have ended.
    void run(int writers, const std::function<bool()>& enough);
    int committed() const { return committed_; }
    // Statements that add rows to every other table, under keys that nobody else uses.
    std::string something_for_two_tables();

  private:
    void writer(Dice dice, const std::function<bool()>& enough);
    void late_writer(Dice dice);
    void transaction(Connection& db, Dice& dice);
    // One statement; in a transaction whose statement failed the rest is skipped.
    std::string statement(Dice& dice);
    std::string insertion(Dice& dice, const RandomTable& table);
    std::string thinning(Dice& dice, const RandomTable& table);
    std::string rows(Dice& dice, const RandomTable& table, int count);
    std::string some_rows(Dice& dice, const RandomTable& table);

    std::string url_;
    const RandomSchema& schema_;
    std::uint64_t seed_;
    std::uint64_t runs_ = 0;
    std::atomic<int> committed_{0};
    std::atomic<int> working_{0};
};

}  // namespace baton::test
