#pragma once
// The image of a value: bytes that are equal exactly when nobody can tell two values of one type apart.
// Equality of types is coarser: 1.0 = 1.00, 0.0 = -0.0, '24 hours' = '1 day', and whatever a collation says.

#include "pg/guard.hpp"

namespace baton::stream {

// How the image of a type's values is made.
struct ImageType {
    Oid type;
    int16 length;
    bool by_value;
    bool holds_rows;  // rows within: each column may be compressed or not, which is no difference
};

// Find out about a type. Only for use inside of pg::call.
ImageType image_type(Oid type);

// The bytes of a value's image, in the current memory context, in the value or in the reference to it. Only
// for use inside of pg::call.
struct ImageBytes {
    const char* begin;
    std::size_t size;
};
ImageBytes image_bytes(const ImageType& type, const Datum& value);

}  // namespace baton::stream
