#pragma once
// Where the changes of a table go: the change buffer of the table itself, or of the table of which this one
// is a partition or child, and which columns of a row belong in which columns of the buffer.

#include <unordered_map>

#include "pg/guard.hpp"

namespace baton::stream {

// The first columns of each buffer: see sql/stream_capture_extension.sql.
enum BufferColumn { buffer_xid, buffer_step, buffer_weight, buffer_first_value };
constexpr int16 something_was_missed = 0;  // a weight

// A column of the buffer.
struct CapturedColumn {
    AttrNumber from;  // the row's column; 0: nobody has it any more
    int16 length;
    bool by_value;
};

struct CaptureTarget {
    Oid buffer = InvalidOid;     // none: nobody wants the changes
    Oid source = InvalidOid;     // whose buffer it is
    bool fits = true;            // false: a column has another type than its column in the buffer
    bool ready = false;          // false again when the server tells of a change in one of `watched`
    AttrNumber last_column = 0;  // of a row, that is needed
    std::vector<CapturedColumn> columns{};  // from buffer_first_value on
    std::vector<Oid> watched{};
};

// The target of a table's changes and its buffer, locked for writing; without a buffer, nothing. The target
// is as the buffer is until the end of the transaction. `schema` is where buffers are.
struct OpenTarget {
    const CaptureTarget* target;
    Relation buffer;
};
OpenTarget open_target(Relation table, Oid schema);

}  // namespace baton::stream
