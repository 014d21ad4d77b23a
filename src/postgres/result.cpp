#include "postgres/result.hpp"

#include <cstdlib>

namespace baton::postgres {

long Result::affected() const {
    return std::strtol(PQcmdTuples(result_.get()), nullptr, 10);
}

int Result::column(const std::string& name) const {
    const int index = PQfnumber(result_.get(), name.c_str());
    if (index < 0) throw UsageError("the result has no column \"" + name + "\"");
    return index;
}

}  // namespace baton::postgres
