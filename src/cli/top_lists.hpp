#pragma once
// What `baton top` shows: lists, and what belongs to one item of each.

#include "cli/listings.hpp"

namespace baton::cli {

// A list that is shown below an item.
struct PartOfItem {
    const char* title;
    const char* operation;
    const char* argument;  // of the operation
    const char* from;      // the field of the item that gives the argument
    const std::vector<Column>* columns;
};

struct List {
    const char* title;
    const char* list;
    const char* show;
    const char* key;  // what names an item
    std::vector<Column> columns;
    std::vector<PartOfItem> parts = {};
};

const std::vector<List>& lists();

}  // namespace baton::cli
