#pragma once
// Names of tables as SQL writes them, turned into quoted ones that are safe inside a statement.

#include <string>
#include <string_view>

namespace baton::client {

// orders -> "orders", Shop.orders -> "shop"."orders", "Odd ""Name""" as it is. Throws UsageError when it is
// no name.
std::string quote_table_name(std::string_view name);

}  // namespace baton::client
