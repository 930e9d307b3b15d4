#include "project.hpp"

#define DEFINE(T)                                                                                                \
    UNCLUMP_EXPORT int unclump_project_##T(const T* x, T* y, T* inverse, Index n, Index d, Index threads) {      \
        return guarded([&] { project_rows(x, y, inverse, n, d, threads); });                                     \
    }                                                                                                            \
    UNCLUMP_EXPORT int unclump_project_back_##T(const T* y, const T* inverse, const T* grad, T* result, Index n, \
                                                Index d, Index threads) {                                        \
        return guarded([&] { project_rows_back(y, inverse, grad, result, n, d, threads); });                     \
    }
UNCLUMP_FOR_BOTH(DEFINE)
