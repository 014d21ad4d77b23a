// Every public header, a call into the library, and an error that crosses its border.

#include <baton/error.hpp>
#include <baton/version.hpp>
#include <iostream>

int main() {
    try {
        throw baton::SqlError("deadlock detected", "40P01");
    } catch (const baton::Error& error) {
        if (!error.retryable()) return 1;
    }
    std::cout << baton::version() << "\n";
}
