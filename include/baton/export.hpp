#pragma once
// Marks what users of the shared library can see. Everything else is hidden.

#define BATON_API __attribute__((visibility("default")))
