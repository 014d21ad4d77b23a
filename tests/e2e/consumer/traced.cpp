// A user's program with traces: says whether they are on, and whether the two libraries share one tracer.

#include <baton/baton.hpp>
#include <baton/otlp.hpp>
#include <iostream>

int main() {
    const baton::OtlpTracing tracing("consumer");
    const bool on = baton::current_tracer() != nullptr;
    if (on != tracing.enabled()) return 1;
    std::cout << (on ? "on" : "off") << "\n";
}
