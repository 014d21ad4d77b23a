#pragma once
// Turns the name of a table, as SQL writes it, into a quoted name that is safe inside a statement.

#include <string>
#include <string_view>

namespace baton::client {

// orders -> "orders", Shop.orders -> "shop"."orders"; "Odd ""Name""" stays. Throws UsageError when the text
// is no name.
std::string quote_table_name(std::string_view name);

}  // namespace baton::client
