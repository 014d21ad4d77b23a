#pragma once
// Every operation, in the order in which people read about them.

#include <string_view>
#include <vector>

#include "operations/operation.hpp"

namespace baton::operations {

const std::vector<Operation>& catalog();
// Throws Error when there is no such operation.
const Operation& find(std::string_view name);

// What each subject declares.
std::vector<Operation> overview_operations();
std::vector<Operation> outbox_operations();
std::vector<Operation> event_operations();
std::vector<Operation> group_operations();
std::vector<Operation> pipeline_operations();
std::vector<Operation> inbox_operations();
std::vector<Operation> dead_letter_operations();
std::vector<Operation> stream_operations();
std::vector<Operation> upkeep_operations();

}  // namespace baton::operations
