// The order of numbers by radix sort, three passes over float and six over double.
#pragma once

#include <utility>

#include "team.hpp"
#include "vectors.hpp"

template <class T>
class Ranks {
  public:
    Ranks(Index n, Index threads) : n_(n), threads_(threads), entries_(n), spare_(n), starts_(threads * digits) {}

    // Calls use(rank, number) with the numbers of the values in ascending order, on all threads. Equal ones keep their
    // order, the zeros are equal, and NaN comes last.
    template <class Use>
    void for_each(const T* values, const Use& use) {
        Entry *from = entries_.get(), *to = spare_.get();
        in_parts([=](Index, Index start, Index stop) {
            for (Index i = start; i < stop; ++i) from[i] = {ordered(values[i]), static_cast<std::uint32_t>(i)};
        });
        for (int pass = 0; pass < passes; ++pass) {
            in_parts([&](Index part, Index start, Index stop) { count(from, start, stop, pass, starts(part)); });
            std::uint32_t before = 0;
            for (Index k = 0; k < digits; ++k) {
                for (Index part = 0; part < threads_; ++part) before += std::exchange(starts(part)[k], before);
            }
            in_parts([&](Index part, Index start, Index stop) { move(from, start, stop, pass, starts(part), to); });
            std::swap(from, to);
        }
        in_parts([&](Index, Index start, Index stop) {
            for (Index rank = start; rank < stop; ++rank) use(rank, static_cast<Index>(from[rank].number));
        });
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

    template <class Body>
    void in_parts(const Body& body) const {
        ::for_each(threads_, threads_,
                   [&](Index part) { body(part, n_ * part / threads_, n_ * (part + 1) / threads_); });
    }

    // Of the digits in a part of the entries: how many there are, and then where the next one goes.
    std::uint32_t* starts(Index part) const { return starts_.get() + part * digits; }

    static void count(const Entry* __restrict from, Index start, Index stop, int pass,
                      std::uint32_t* __restrict counts) {
        std::fill(counts, counts + digits, 0);
        for (Index i = start; i < stop; ++i) ++counts[digit(from[i].key, pass)];
    }

    static void move(const Entry* __restrict from, Index start, Index stop, int pass, std::uint32_t* __restrict places,
                     Entry* __restrict to) {
        for (Index i = start; i < stop; ++i) to[places[digit(from[i].key, pass)]++] = from[i];
    }

    // A number that compares as the value does: no branch, which for random signs would be guessed wrong half the time.
    static Bits ordered(T value) {
        constexpr int last = 8 * sizeof(T) - 1;
        const T plus_zero = value + T(0);  // of both zeros
        Integer<T> bits_of;
        __builtin_memcpy(&bits_of, &plus_zero, sizeof bits_of);
        const Bits key = static_cast<Bits>(bits_of) ^ (static_cast<Bits>(bits_of >> last) | Bits(1) << last);
        return value != value ? ~Bits(0) : key;
    }

    Index n_, threads_;
    Buffer<Entry> entries_, spare_;
    Buffer<std::uint32_t> starts_;
};
