#pragma once
// The blocks of which the queries of stream_grammar.hpp are made.

#include "isolation/stream_expressions.hpp"

namespace baton::test {

class Blocks {
  public:
    // `tables` bounds how many tables the whole query reads, roughly.
    Blocks(Dice& dice, const RandomSchema& schema, int tables)
        : dice_(dice), schema_(schema), expressions_(dice), budget_(tables) {}

    RandomQuery query(int depth);

  private:
    // An item of FROM, or several joined.
    struct Item {
        std::string text;
        Scope scope;
        bool is_table = false;
    };
    // FROM and WHERE of a block.
    struct Core {
        std::string text;
        Scope scope;
    };
    // The SELECT list of a block, as far as it is made.
    class Outputs {
      public:
        void add(const std::string& value, Kind kind);
        const std::string& text() const { return text_; }
        const std::vector<Kind>& kinds() const { return kinds_; }

      private:
        std::string text_;
        std::vector<Kind> kinds_;
    };

    // ---- stream_from.cpp ----
    std::string alias() { return "y" + std::to_string(++aliases_); }
    Item named(const std::string& text, const std::vector<RandomColumn>& columns);
    Item item(int depth);
    Item values();
    Item joined(int depth);
    Item with_using(const Item& left, const Item& right, const std::string& type);
    void add_function(Item& to);
    void add_lateral(Item& to);
    std::string time_condition(const Scope& scope);
    Core core(int depth);
    std::string subquery_condition(const Scope& outer, int depth);
    std::string comparison_with_subquery(const Scope& outer, const Item& inside, const std::string& where,
                                         bool grouped);
    std::string scalar_subquery(Kind& kind, const Scope& outer);

    // ---- stream_blocks.cpp ----
    RandomQuery selection(int depth);
    RandomQuery selection_of(const std::vector<Kind>& kinds, int depth);
    RandomQuery aggregate(int depth);
    RandomQuery grouping_sets(int depth);
    RandomQuery distinct(int depth);
    RandomQuery distinct_on(int depth);
    RandomQuery window(int depth);
    RandomQuery window_over_groups(int depth);
    RandomQuery limited(int depth);
    RandomQuery set_operation(int depth);
    RandomQuery with(int depth);
    RandomQuery recursive(int depth);
    void add_values(Outputs& outputs, const Scope& scope, int count);
    void add_counts_and_sums(Outputs& outputs, const Scope& scope);
    void add_aggregate(Outputs& outputs, const Scope& scope);
    void add_merging_aggregate(Outputs& outputs, const Scope& scope);
    void add_window_function(Outputs& outputs, const Scope& scope, const std::string& partition);
    std::string having(const Scope& scope);

    Dice& dice_;
    const RandomSchema& schema_;
    Expressions expressions_;
    int budget_;
    int aliases_ = 0;
    std::vector<RandomTable> with_;  // the WITH queries in reach
};

}  // namespace baton::test
