#pragma once

#include <memory>
#include <string_view>

#include "event/event.hpp"

namespace baton {

// Does what append_headers() does, many times faster for the usual headers: texts, whole numbers, true and
// false. Members come as they are written, not by name. One reader is for one thread at a time: it keeps its
// memory from one event to the next. A copy has memory of its own.
class HeaderReader {
  public:
    HeaderReader();
    ~HeaderReader();
    HeaderReader(const HeaderReader& other);
    HeaderReader& operator=(const HeaderReader& other);
    void append(Headers& headers, std::string_view json_object);

  private:
    struct Memory;
    bool append_usual(Headers& headers, std::string_view json_object);
    std::unique_ptr<Memory> memory_;
};

}  // namespace baton
