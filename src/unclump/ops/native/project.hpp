// Rows onto the sphere, and gradients back.
#pragma once

#include "team.hpp"
#include "vectors.hpp"

// The norm of a row as a product of two numbers, neither of which overflows or vanishes: the largest entry, which may
// be NaN, and the norm of the row divided by it.
struct Norm {
    double largest = 0, scaled = 0;

    template <class T>
    Norm(const T* x, Index d) {
        for (Index j = 0; j < d; ++j) {
            const double size = std::fabs(static_cast<double>(x[j]));
            largest = size > largest || std::isnan(size) ? size : largest;
        }
        for (Index j = 0; j < d && largest != 0; ++j) {
            const double entry = static_cast<double>(x[j]) / largest;
            scaled += entry * entry;
        }
        scaled = std::sqrt(scaled);
    }
};

// One over the norm, from its square by `dot`; where T does not hold it, its largest number; of zeros, zero. One if
// that is a matter of rounding: so rows that have been projected keep every bit.
template <class T>
inline T inverse_norm(const T* x, Index d, T squared) {
    constexpr T tiny = std::numeric_limits<T>::min() * T(1e8), huge = std::numeric_limits<T>::max() * T(1e-8);
    if (std::fabs(squared - 1) <= 2 * std::numeric_limits<T>::epsilon()) return 1;
    if (squared > tiny && squared < huge) return 1 / std::sqrt(squared);
    const Norm norm(x, d);
    if (norm.largest == 0) return 0;
    const double inverse = 1 / norm.largest / norm.scaled, most = std::numeric_limits<T>::max();
    return static_cast<T>(inverse > most ? most : inverse);
}

template <class T>
inline T inverse_norm(const T* x, Index d) {
    return inverse_norm(x, d, dot(x, x, d));
}

// One row: y = x / |x|, and one over the norm.
template <class T>
inline T project_row(const T* __restrict x, T* __restrict y, Index d) {
    const T inverse = inverse_norm(x, d);
    if (inverse >= std::numeric_limits<T>::min() && inverse < std::numeric_limits<T>::max()) {
        for (Index j = 0; j < d; ++j) y[j] = inverse * x[j];
        return inverse;
    }
    const Norm norm(x, d);
    for (Index j = 0; j < d; ++j) {
        y[j] = norm.largest == 0 ? T(0) : static_cast<T>(static_cast<double>(x[j]) / norm.largest / norm.scaled);
    }
    return inverse;
}

// One row of the gradient by what was projected, (g - <y, g> y) / |x|.
template <class T>
inline void project_row_back(const T* __restrict y, T inverse, const T* __restrict grad, T* __restrict result,
                             Index d) {
    const T radial = dot(y, grad, d);
    for (Index j = 0; j < d; ++j) result[j] = inverse * (grad[j] - radial * y[j]);
}

// The same in place, times a factor; what T does not hold becomes its largest number.
template <class T>
inline void project_row_back(const T* __restrict y, T inverse, T factor, T* __restrict grad, Index d) {
    constexpr T most = std::numeric_limits<T>::max();
    const T radial = dot<T>(y, grad, d), scale = factor * inverse;
    for (Index j = 0; j < d; ++j) {
        const T entry = scale * (grad[j] - radial * y[j]);
        grad[j] = entry > most ? most : entry < -most ? -most : entry;
    }
}

template <class T>
void project_rows(const T* x, T* y, T* inverse, Index n, Index d, Index threads) {
    in_parallel(n, threads, [=](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) inverse[i] = project_row(x + i * d, y + i * d, d);
    });
}

// Stops a loop that has no place for rows of zeros: their inverse norms are zero.
template <class T>
void require_directions(const T* inverse, Index n) {
    for (Index i = 0; i < n; ++i) {
        if (inverse[i] == 0) throw std::domain_error("a row of zeros");
    }
}

template <class T>
void project_rows_back(const T* y, const T* inverse, const T* grad, T* result, Index n, Index d, Index threads) {
    in_parallel(n, threads, [=](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) project_row_back(y + i * d, inverse[i], grad + i * d, result + i * d, d);
    });
}
