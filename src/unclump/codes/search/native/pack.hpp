// Vectors of doubles as wide as the machine's registers, by the compiler's vector extensions.
//
// A sum over points is one of packs, then of the lanes: its order depends on the instruction set and on nothing else,
// so that the same input gives the same bits, whatever the addresses.
#pragma once

#include <cstdint>
#include <cstring>

namespace unclump::codes {

using Index = std::int64_t;

#if defined(__AVX512F__)
constexpr Index kLanes = 8;
#elif defined(__AVX__)
constexpr Index kLanes = 4;
#else
constexpr Index kLanes = 2;
#endif

// Columns are padded to a multiple of this, which every width divides.
constexpr Index kPadding = 8;

typedef double Pack __attribute__((vector_size(kLanes * sizeof(double))));
typedef std::int64_t Mask __attribute__((vector_size(kLanes * sizeof(double))));

inline Pack load(const double* from) {
    Pack pack;
    std::memcpy(&pack, from, sizeof pack);
    return pack;
}

inline void store(double* to, Pack pack) {
    std::memcpy(to, &pack, sizeof pack);
}

inline Pack broadcast(double value) {
    return value - Pack{};
}

inline double sum_lanes(Pack pack) {
    double lanes[kLanes];
    store(lanes, pack);
    for (Index half = kLanes / 2; half > 0; half /= 2)
        for (Index lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    return lanes[0];
}

inline Pack larger(Pack a, Pack b) {
    return a > b ? a : b;
}

inline double largest_lane(Pack pack) {
    double largest = pack[0];
    for (Index lane = 1; lane < kLanes; ++lane) largest = pack[lane] > largest ? pack[lane] : largest;
    return largest;
}

// Lanes at the positions first, first + 1, ... that are after `after` and before `before`.
inline Mask lanes_between(Index after, Index first, Index before) {
    Mask position;
    for (Index lane = 0; lane < kLanes; ++lane) position[lane] = lane;
    position += first;
    return (position > after) & (position < before);
}

// Zero where the argument is zero: padding stays zero.
inline Pack reciprocal_or_zero(Pack pack) {
    return pack != 0 ? 1 / pack : Pack{};
}

// e^z to a relative 1e-14 between the bounds, to which z is clamped; NaN stays NaN.
// z = k log 2 + r with an integer k; e^r by its Taylor polynomial; k is added to the exponent bits.
inline Pack exponential(Pack z, double lowest, double highest) {
    constexpr double inverse_log2 = 1.4426950408889634;
    constexpr double log2_high = 6.93147180369123816490e-01, log2_low = 1.90821492927058770002e-10;
    constexpr double shift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, kept in the low bits
    z = z < lowest ? broadcast(lowest) : z;
    z = z > highest ? broadcast(highest) : z;
    const Pack shifted = z * inverse_log2 + shift;
    const Pack k = shifted - shift;
    const Pack r = (z - k * log2_high) - k * log2_low;
    Pack power = broadcast(1.0 / 39916800);
    for (const double term :
         {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0})
        power = power * r + term;
    return reinterpret_cast<Pack>(reinterpret_cast<Mask>(power) + (reinterpret_cast<Mask>(shifted) << 52));
}

}  // namespace unclump::codes
