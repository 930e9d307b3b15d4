#include "nearest.hpp"

// Of several sets, one after the other.
#define DEFINE(T)                                                                                                     \
    UNCLUMP_EXPORT int unclump_nearest_##T(const T* x, const T* y, const bool* mask, Index* index, T* r2, Index sets, \
                                           Index n, Index m, Index d, Index k, Index itself, Index threads) {         \
        return guarded([&] {                                                                                          \
            for (Index set = 0; set < sets; ++set) {                                                                  \
                NearestSearch<T> search(x + set * n * d, n, y == nullptr ? nullptr : y + set * m * d, m, d,           \
                                        mask == nullptr ? nullptr : mask + set * m, itself, threads);                 \
                search.find(k, index + set * n * k, r2 + set * n * k);                                                \
            }                                                                                                         \
        });                                                                                                           \
    }
UNCLUMP_FOR_BOTH(DEFINE)
