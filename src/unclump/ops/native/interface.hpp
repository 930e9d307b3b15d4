// What Python sees: plain C functions, two of each, for float and for double.
#pragma once

#include <cstdint>

#define UNCLUMP_EXPORT extern "C" __attribute__((visibility("default")))

using Index = std::int64_t;
