// The one parallel loop. Ranges are static: which thread does what, and so every sum, depends on the number of threads
// alone. The threads are those of OpenMP that torch has started already.
#pragma once

#include <algorithm>

#include "interface.hpp"

// Calls body(start, stop) for `pieces` ranges that make up [0, count), on so many threads; returns when all are done.
template <class Body>
void in_parallel(Index count, Index pieces, Index threads, const Body& body) {
    pieces = std::min(pieces, count);
    if (threads <= 1 || pieces <= 1) {
        for (Index piece = 0; piece < pieces; ++piece) body(count * piece / pieces, count * (piece + 1) / pieces);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(std::min(threads, pieces)))
    for (Index piece = 0; piece < pieces; ++piece) body(count * piece / pieces, count * (piece + 1) / pieces);
}

// The same with one range a thread.
template <class Body>
void in_parallel(Index count, Index threads, const Body& body) {
    in_parallel(count, std::max<Index>(threads, 1), threads, body);
}
