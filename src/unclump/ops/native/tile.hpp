// The one tile: products of a few rows with two vectors' worth of columns, kept in registers over the depth, as in any
// fast product. So one thread is as fast as BLAS, which knows nothing of triangles and brings its own threads.
#pragma once

#include <algorithm>

#include "vectors.hpp"

constexpr int tile_rows = vector_bytes == 64 ? 8 : 4;  // with two vectors each, as many sums as there are registers for

template <class T>
constexpr int tile_width = 2 * lanes<T>;

template <int rows, int parts, class T>
inline __attribute__((always_inline)) void add_products(const T* __restrict a, Index a_row, Index a_step,
                                                        const T* __restrict b, Index b_step, Index depth,
                                                        Vector<T> (&sums)[rows][parts]) {
    for (Index k = 0; k < depth; ++k) {
        Vector<T> columns[parts];
#pragma GCC unroll 2
        for (int part = 0; part < parts; ++part) columns[part] = load(b + k * b_step + part * lanes<T>);
#pragma GCC unroll 8
        for (int row = 0; row < rows; ++row) {
            const T entry = a[row * a_row + k * a_step];
#pragma GCC unroll 2
            for (int part = 0; part < parts; ++part) sums[row][part] += entry * columns[part];
        }
    }
}

// Calls use(sums), where sums[row][part][lane] is the sum over k < depth of
// a[row * a_row + k * a_step] * b[k * b_step + part * lanes + lane]. Long sums are taken in parts, which rounds less.
template <int rows, int parts, class T, class Use>
inline __attribute__((always_inline)) void tile(const T* a, Index a_row, Index a_step, const T* b, Index b_step,
                                                Index depth, const Use& use) {
    constexpr Index at_once = 128;
    Vector<T> sums[rows][parts] = {};
    add_products<rows, parts>(a, a_row, a_step, b, b_step, std::min(depth, at_once), sums);
    for (Index k = at_once; k < depth; k += at_once) {
        Vector<T> more[rows][parts] = {};
        add_products<rows, parts>(a + k * a_step, a_row, a_step, b + k * b_step, b_step, std::min(depth - k, at_once),
                                  more);
        for (int row = 0; row < rows; ++row) {
            for (int part = 0; part < parts; ++part) sums[row][part] += more[row][part];
        }
    }
    use(sums);
}

// All sums of a tile to rows that are a stride apart.
template <int rows, int parts, class T>
inline __attribute__((always_inline)) void store_tile(const Vector<T> (&sums)[rows][parts], T* to, Index stride) {
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 2
        for (int part = 0; part < parts; ++part) store<T>(to + row * stride + part * lanes<T>, sums[row][part]);
    }
}
