// The ranks of angles by radix sort: two passes over fixed-point numbers, and the few that share one by comparison.
#pragma once

#include <algorithm>
#include <utility>

#include "vectors.hpp"

template <class T>
class Ranks {
  public:
    explicit Ranks(Index n) : n_(n), entries_(n), spare_(n), starts_(2 * digits) {}

    // Calls use(rank, number) with the numbers of angles in [-pi, pi] in ascending order. Equal ones keep their order,
    // the zeros are equal, and NaN comes first.
    template <class Use>
    void for_each(const T* angles, const Use& use) {
        Entry *const keys = spare_.get(), *const once = entries_.get();
        std::uint32_t *const low = starts_.get(), *const high = low + digits;
        for (Index i = 0; i < n_; ++i) keys[i] = {key_of(angles[i]), static_cast<std::uint32_t>(i)};
        std::fill(low, low + 2 * digits, 0);
        for (Index i = 0; i < n_; ++i) {
            ++low[keys[i].key % digits];
            ++high[keys[i].key / digits];
        }
        std::uint32_t before[2] = {};
        for (Index digit = 0; digit < digits; ++digit) {
            before[0] += std::exchange(low[digit], before[0]);
            before[1] += std::exchange(high[digit], before[1]);
        }
        for (Index i = 0; i < n_; ++i) once[low[keys[i].key % digits]++] = keys[i];
        for (Index i = 0; i < n_; ++i) keys[high[once[i].key / digits]++] = once[i];
        Index sorted = 0;
        for (Index rank = 0; rank < n_; ++rank) {
            if (rank >= sorted && rank + 1 < n_ && keys[rank].key == keys[rank + 1].key) {
                sorted = sort_run(angles, keys, rank);
            }
            use(rank, static_cast<Index>(keys[rank].number));
        }
    }

  private:
    struct alignas(8) Entry {  // aligned so that it moves as one
        std::uint32_t key, number;
    };
    static constexpr std::uint32_t digits = 1 << 11;  // of a pass: counts that stay in the fastest cache

    // Rises with the angle from one on; zero is NaN. The conversion is to a signed number, which vectors have.
    static std::uint32_t key_of(T angle) {
        constexpr T most = digits * digits - 1, pi = T(3.14159265358979323846);
        const T key = (angle + pi) * ((most - 2) / (2 * pi)) + 1;
        return static_cast<std::uint32_t>(static_cast<std::int32_t>(key >= 1 ? key < most ? key : most : T(0)));
    }

    // Sorts the entries with the key of the one at `first` by their angles. Returns where they end.
    Index sort_run(const T* angles, Entry* entries, Index first) const {
        Index last = first + 1;
        while (last < n_ && entries[last].key == entries[first].key) ++last;
        std::sort(entries + first, entries + last, [=](const Entry& one, const Entry& other) {
            const T a = angles[one.number], b = angles[other.number];
            return a < b || (!(b < a) && one.number < other.number);
        });
        return last;
    }

    Index n_;
    Buffer<Entry> entries_, spare_;
    Buffer<std::uint32_t> starts_;
};
