// The one tile: products of a few rows with two vectors' worth of columns, kept in registers over the whole depth, as
// in any fast product. So one thread is as fast as BLAS, which knows nothing of triangles and brings its own threads.
#pragma once

#include "vectors.hpp"

constexpr int tile_rows = vector_bytes == 64 ? 8 : 4;  // with two vectors each, as many sums as there are registers for

template <class T>
constexpr int tile_width = 2 * lanes<T>;

// Calls use(sums), where sums[row][part][lane] is the sum over k < depth of
// a[row * a_row + k * a_step] * b[k * b_step + part * lanes + lane].
template <int rows, int parts, class T, class Use>
inline __attribute__((always_inline)) void tile(const T* __restrict a, Index a_row, Index a_step, const T* __restrict b,
                                                Index b_step, Index depth, const Use& use) {
    Vector<T> sums[rows][parts] = {};
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
    use(sums);
}
