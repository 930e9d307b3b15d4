// Vectors as wide as the processor's registers, by the compiler's extensions; and sums with one fixed order.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "interface.hpp"

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

template <class T, int bytes = vector_bytes>
struct VectorOf {
    typedef T type __attribute__((vector_size(bytes)));
};
template <class T, int bytes = vector_bytes>
using Vector = typename VectorOf<T, bytes>::type;

// What comparisons of vectors give: integers of the same size, all bits set where true.
template <class T>
using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

template <class T>
inline Vector<T> load(const T* from) {
    Vector<T> vector;
    __builtin_memcpy(&vector, from, sizeof vector);
    return vector;
}

template <class T>
inline void store(T* to, const Vector<T>& vector) {
    __builtin_memcpy(to, &vector, sizeof vector);
}

template <class T>
inline Vector<T> fill(T value) {
    return value - Vector<T>{};
}

// The lanes' numbers, from `first` on.
template <class T>
inline Vector<Integer<T>> numbers_from(Index first) {
    Vector<Integer<T>> result;
    for (int lane = 0; lane < lanes<T>; ++lane) result[lane] = static_cast<Integer<T>>(first + lane);
    return result;
}

// NaN loses against `running`, but as `running` it stays.
template <class V>
inline V larger(const V& one, const V& running) {
    return one > running ? one : running;
}

// All lanes combined, halves with halves.
template <class T, int bytes, class Combine>
inline T fold_halves(const Vector<T, bytes>& vector, const Combine& combine) {
    if constexpr (bytes > 16) {
        Vector<T, bytes / 2> halves[2];
        __builtin_memcpy(halves, &vector, sizeof vector);
        return fold_halves<T, bytes / 2>(combine(halves[0], halves[1]), combine);
    } else if constexpr (sizeof(T) == 8) {
        return combine(T(vector[0]), T(vector[1]));
    } else {
        return combine(combine(T(vector[0]), T(vector[2])), combine(T(vector[1]), T(vector[3])));
    }
}

template <class T>
inline T sum(const Vector<T>& vector) {
    return fold_halves<T, vector_bytes>(vector, [](const auto& a, const auto& b) { return a + b; });
}

template <class T>
inline T largest(const Vector<T>& vector) {
    return fold_halves<T, vector_bytes>(vector, [](const auto& a, const auto& b) { return larger(a, b); });
}

// Calls use(lane) for the lanes where a condition holds, in ascending order: for few of them.
template <class I, class Use>
inline void for_each_lane(const Vector<I>& condition, const Use& use) {
    const Vector<I> none = fill(static_cast<I>(lanes<I>));
    Vector<I> left = condition ? numbers_from<I>(0) : none;
    for (I lane = -largest<I>(-left); lane < lanes<I>; lane = -largest<I>(-left)) {
        use(static_cast<Index>(lane));
        left = left == lane ? none : left;
    }
}

// Lanes of two vectors by their numbers, those of the other after those of the one.
template <class T, std::size_t... lane>
inline Vector<T> pick(const Vector<T>& one, const Vector<T>& other) {
#ifdef __clang__
    return __builtin_shufflevector(one, other, lane...);
#else  // which GCC has from version 12 on
    return __builtin_shuffle(one, other, Vector<Integer<T>>{static_cast<Integer<T>>(lane)...});
#endif
}

// Exchanges the lanes of two vectors across the diagonal of a square with sides of this length.
template <class T, std::size_t side, std::size_t... lane>
inline void exchange(Vector<T>& one, Vector<T>& other, std::index_sequence<lane...>) {
    constexpr std::size_t beyond = sizeof...(lane);
    const Vector<T> before = one;
    one = pick<T, (lane & side ? beyond + (lane ^ side) : lane)...>(before, other);
    other = pick<T, (lane & side ? beyond + lane : lane ^ side)...>(before, other);
}

// Rows become columns: squares of one lane first, then of two, and so on.
template <class T, int side = 1>
inline void transpose(Vector<T> (&rows)[lanes<T>]) {
    if constexpr (side < lanes<T>) {
#pragma GCC unroll 16
        for (int i = 0; i < lanes<T>; ++i) {
            if ((i & side) == 0) exchange<T, side>(rows[i], rows[i + side], std::make_index_sequence<lanes<T>>());
        }
        transpose<T, 2 * side>(rows);
    }
}

// The one reduction: sums over the entries of arrays, as many as `term(at, totals)` adds to, where `at(array)` is a
// vector of entries or a single one. Whole vectors first, then what is left one by one.
template <class T, int terms, class Term>
inline void reduce(Index count, T (&totals)[terms], const Term& term) {
    Vector<T> partial[terms] = {};
    Index i = 0;
    for (; i + lanes<T> <= count; i += lanes<T>) {
        term([i](const T* from) { return load(from + i); }, partial);
    }
    for (int k = 0; k < terms; ++k) totals[k] = sum<T>(partial[k]);
    for (; i < count; ++i) {
        term([i](const T* from) { return from[i]; }, totals);
    }
}

template <class T>
inline T dot(const T* x, const T* y, Index d) {
    T totals[1];
    reduce<T, 1>(d, totals, [=](const auto& at, auto& total) { total[0] += at(x) * at(y); });
    return totals[0];
}

template <class T>
inline T squared_chord(const T* x, const T* y, Index d) {
    T totals[1];
    reduce<T, 1>(d, totals, [=](const auto& at, auto& total) {
        const auto difference = at(x) - at(y);
        total[0] += difference * difference;
    });
    return totals[0];
}

// The squared chord to the antipode.
template <class T>
inline T squared_sum(const T* x, const T* y, Index d) {
    T totals[1];
    reduce<T, 1>(d, totals, [=](const auto& at, auto& total) {
        const auto entry = at(x) + at(y);
        total[0] += entry * entry;
    });
    return totals[0];
}

// Memory that starts at a multiple of 64 bytes and is not initialised.
template <class T>
class Buffer {
  public:
    explicit Buffer(Index count = 0) : entries_(allocate(count)) {}
    ~Buffer() { std::free(entries_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* get() const { return entries_; }
    T& operator[](Index i) const { return entries_[i]; }

  private:
    static T* allocate(Index count) {
        const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 127) / 64 * 64;
        void* memory = std::aligned_alloc(64, bytes);
        if (memory == nullptr) throw std::bad_alloc();
        return static_cast<T*>(memory);
    }
    T* entries_;
};
