// The order of numbers by radix sort, three passes over float and six over double.
#pragma once

#include <utility>

#include "vectors.hpp"

template <class T>
class Ranks {
  public:
    explicit Ranks(Index n) : n_(n), entries_(n), spare_(n) {}

    // Calls use(rank, number) with the numbers of the values in ascending order. Equal ones keep their order, the zeros
    // are equal, and NaN comes last.
    template <class Use>
    void for_each(const T* values, const Use& use) {
        std::uint32_t starts[passes][digits] = {};
        Entry *from = entries_.get(), *to = spare_.get();
        for (Index i = 0; i < n_; ++i) {
            from[i] = {ordered(values[i]), static_cast<std::uint32_t>(i)};
            for (int pass = 0; pass < passes; ++pass) ++starts[pass][digit(from[i].key, pass)];
        }
        for (int pass = 0; pass < passes; ++pass) {
            std::uint32_t before = 0;
            for (std::uint32_t& start : starts[pass]) before += std::exchange(start, before);
            for (Index i = 0; i < n_; ++i) to[starts[pass][digit(from[i].key, pass)]++] = from[i];
            std::swap(from, to);
        }
        for (Index rank = 0; rank < n_; ++rank) use(rank, static_cast<Index>(from[rank].number));
    }

  private:
    using Bits = std::make_unsigned_t<Integer<T>>;
    struct alignas(2 * sizeof(Bits)) Entry {  // aligned so that it moves as one
        Bits key;
        std::uint32_t number;
    };
    static constexpr int bits = 11;  // a pass: counts that stay in the fastest cache
    static constexpr int digits = 1 << bits, passes = (8 * sizeof(T) + bits - 1) / bits;

    static std::uint32_t digit(Bits key, int pass) {
        return static_cast<std::uint32_t>(key >> (bits * pass)) & (digits - 1);
    }

    // A number that compares as the value does: no branch, which for random signs would be guessed wrong half the time.
    static Bits ordered(T value) {
        constexpr int last = 8 * sizeof(T) - 1;
        const T plus_zero = value + T(0);  // of both zeros
        Integer<T> found;
        __builtin_memcpy(&found, &plus_zero, sizeof found);
        const Bits key = static_cast<Bits>(found) ^ (static_cast<Bits>(found >> last) | Bits(1) << last);
        return value != value ? ~Bits(0) : key;
    }

    Index n_;
    Buffer<Entry> entries_, spare_;
};
