// What Python sees: plain C functions, two of each, for float and for double. They return 0; 1 without memory;
// 2 if a row number is out of range; 3 if a row of zeros has no direction.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>

#define UNCLUMP_EXPORT extern "C" __attribute__((visibility("default")))

// Writes a definition DEFINE(T) for both types; names of functions end with that of the type.
#define UNCLUMP_FOR_BOTH(DEFINE) DEFINE(float) DEFINE(double)

using Index = std::int64_t;

// No exception may leave C++. Memory is only allocated outside of parallel loops.
template <class Body>
int guarded(const Body& body) {
    try {
        body();
        return 0;
    } catch (const std::bad_alloc&) {
        return 1;
    } catch (const std::out_of_range&) {
        return 2;
    } catch (const std::domain_error&) {
        return 3;
    }
}
