#include "operations/catalog.hpp"

#include <algorithm>
#include <iterator>

namespace baton::operations {

const std::vector<Operation>& catalog() {
    static const std::vector<Operation> all = [] {
        std::vector<Operation> joined;
        for (auto subject :
             {overview_operations, outbox_operations, event_operations, group_operations, pipeline_operations,
              inbox_operations, dead_letter_operations, stream_operations, upkeep_operations}) {
            auto declared = subject();
            std::move(declared.begin(), declared.end(), std::back_inserter(joined));
        }
        return joined;
    }();
    return all;
}

const Operation& find(std::string_view name) {
    const auto& all = catalog();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [name](const auto& operation) { return operation.name == name; });
    if (found == all.end()) throw Error("there is no operation " + std::string(name));
    return *found;
}

}  // namespace baton::operations
