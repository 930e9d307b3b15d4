// Losses of the distance to the nearest, from raw embeddings to value and gradient.
//
// With r = |x - y| and s = |x + y| the angle is 2 atan2(r, s), and its gradient by x a multiple of x - y less one of
// x + y: no part of it is singular but where the angle itself is.
#include "nearest.hpp"
#include "project.hpp"

namespace {

enum class Distance : Index { chordal, geodesic, squared };

// Derivatives of a term by its first point: multiples of the difference of both points and of their sum, and for points
// that coincide the push to the side. By the second point it is the same with the difference reversed.
struct Slopes {
    double along_difference = 0, along_sum = 0, aside = 0;
};

double measured(Distance distance, double r2, double s2) {
    if (distance == Distance::squared) return r2;
    const double chord = std::sqrt(r2);
    return distance == Distance::chordal ? chord : 2 * std::atan2(chord, std::sqrt(s2));
}

// Of the weighted distance; zero where it has no direction.
Slopes slopes_of(Distance distance, double weight, double r2, double s2) {
    if (distance == Distance::squared) return {2 * weight, 0, 0};
    const double chord = std::sqrt(r2), inverse = chord == 0 ? 0 : 1 / chord;
    if (distance == Distance::chordal) return {weight * inverse, 0, 0};
    if (r2 == 0 && s2 == 0) return {};  // two rows of zeros
    const double turn = 2 * weight / (r2 + s2), length = std::sqrt(s2);
    return {turn * length * inverse, s2 == 0 ? 0 : -turn * chord / length, 0};
}

// Adds the gradient of a pair to the row of one point; `side` is -1 for the second.
template <class T>
void add_slopes(const Slopes& slopes, T side, const T* __restrict x, const T* __restrict y, T* __restrict row,
                Index d) {
    const T push = side * static_cast<T>(slopes.along_difference), pull = static_cast<T>(slopes.along_sum);
    for (Index j = 0; j < d; ++j) row[j] += push * (x[j] - y[j]) + pull * (x[j] + y[j]);
    if (slopes.aside == 0) return;
    const Aside aside(x, d);
    row[aside.axis] += side * static_cast<T>(slopes.aside * aside.length);
}

template <class T>
double mean(const Buffer<T>& terms, Index count) {
    T totals[1];
    reduce<T, 1>(count, totals, [&](const auto& at, auto& total) { total[0] += at(terms.get()); });
    return totals[0] / static_cast<double>(count);
}

// Minus the mean distance of directions to the nearest other, or of its logarithm. Rows that coincide are taken to be
// `apart`, and pushed by different amounts, the earlier to one side and the later to the other.
template <class T>
double mean_of_nearest(const T* embeddings, Index n, Index d, Distance distance, bool of_logarithm, T* gradient,
                       Index threads) {
    const double apart = std::sqrt(std::numeric_limits<T>::epsilon());
    Buffer<T> x(n * d), inverse(n), r2(n);
    Buffer<Index> index(n);
    Buffer<double> terms(n);
    Buffer<Slopes> slopes(n);
    project_rows(embeddings, x.get(), inverse.get(), n, d, threads);
    require_directions(inverse.get(), n);
    NearestSearch<T>(x.get(), n, nullptr, n, d, nullptr, 0, threads).find(1, index.get(), r2.get());
    in_parallel(n, threads, [&](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) {
            const bool coincide = r2[i] == 0, needs_sum = distance == Distance::geodesic;
            const double chord2 = coincide ? apart * apart : static_cast<double>(r2[i]);
            const double s2 = needs_sum ? squared_sum(x.get() + i * d, x.get() + index[i] * d, d) : 0;
            const double length = measured(distance, chord2, s2);
            terms[i] = of_logarithm ? -std::log(length) : -length;
            const double weight = of_logarithm ? -1 / (static_cast<double>(n) * length) : -1 / static_cast<double>(n);
            slopes[i] = slopes_of(distance, weight, chord2, s2);
            if (!coincide) continue;
            const auto after = static_cast<double>(i - index[i]);
            slopes[i].aside = apart * (after / (1 + std::fabs(after))) * slopes[i].along_difference;
            slopes[i].along_difference = 0;
        }
    });
    if (gradient != nullptr) {
        // Every range goes over all pairs, so that no two threads write to one row.
        in_parallel(n, threads, [&](Index start, Index stop) {
            std::fill(gradient + start * d, gradient + stop * d, T(0));
            for (Index i = 0; i < n; ++i) {
                const T *one = x.get() + i * d, *other = x.get() + index[i] * d;
                if (start <= i && i < stop) add_slopes(slopes[i], T(1), one, other, gradient + i * d, d);
                const Index k = index[i];
                if (start <= k && k < stop) add_slopes(slopes[i], T(-1), one, other, gradient + k * d, d);
            }
            for (Index i = start; i < stop; ++i) {
                project_row_back(x.get() + i * d, inverse[i], T(1), gradient + i * d, d);
            }
        });
    }
    return mean(terms, n);
}

// Half the mean squared angle between samples' directions and the nearest of the embeddings'.
template <class T>
double quantisation_error(const T* embeddings, Index n, const T* drawn, Index m, Index d, T* gradient, Index threads) {
    Buffer<T> x(n * d), inverse(n), samples(m * d), unused(m), r2(m);
    Buffer<Index> index(m);
    Buffer<double> terms(m);
    Buffer<Slopes> slopes(m);
    project_rows(embeddings, x.get(), inverse.get(), n, d, threads);
    require_directions(inverse.get(), n);
    project_rows(drawn, samples.get(), unused.get(), m, d, threads);
    NearestSearch<T>(samples.get(), m, x.get(), n, d, nullptr, n, threads).find(1, index.get(), r2.get());
    in_parallel(m, threads, [&](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) {
            const double s2 = squared_sum(samples.get() + i * d, x.get() + index[i] * d, d);
            const double angle = measured(Distance::geodesic, static_cast<double>(r2[i]), s2);
            terms[i] = angle * angle / 2;
            slopes[i] = slopes_of(Distance::geodesic, angle / static_cast<double>(m), static_cast<double>(r2[i]), s2);
        }
    });
    if (gradient != nullptr) {
        in_parallel(n, threads, [&](Index start, Index stop) {
            std::fill(gradient + start * d, gradient + stop * d, T(0));
            for (Index i = 0; i < m; ++i) {
                const Index k = index[i];
                if (start > k || k >= stop) continue;
                add_slopes(slopes[i], T(-1), samples.get() + i * d, x.get() + k * d, gradient + k * d, d);
            }
            for (Index i = start; i < stop; ++i) {
                project_row_back(x.get() + i * d, inverse[i], T(1), gradient + i * d, d);
            }
        });
    }
    return mean(terms, m);
}

}  // namespace

// One value for each of several sets; the gradient may be null.
#define DEFINE(T)                                                                                                     \
    UNCLUMP_EXPORT int unclump_mean_of_nearest_##T(const T* x, T* values, T* gradient, Index sets, Index n, Index d,  \
                                                   Index distance, Index of_logarithm, Index threads) {               \
        return guarded([&] {                                                                                          \
            for (Index set = 0; set < sets; ++set) {                                                                  \
                T* const of_set = gradient == nullptr ? nullptr : gradient + set * n * d;                             \
                values[set] = static_cast<T>(mean_of_nearest(x + set * n * d, n, d, static_cast<Distance>(distance),  \
                                                             of_logarithm != 0, of_set, threads));                    \
            }                                                                                                         \
        });                                                                                                           \
    }                                                                                                                 \
    UNCLUMP_EXPORT int unclump_quantisation_error_##T(const T* x, const T* samples, T* values, T* gradient,           \
                                                      Index sets, Index n, Index m, Index d, Index threads) {         \
        return guarded([&] {                                                                                          \
            for (Index set = 0; set < sets; ++set) {                                                                  \
                T* const of_set = gradient == nullptr ? nullptr : gradient + set * n * d;                             \
                values[set] = static_cast<T>(quantisation_error(x + set * n * d, n, samples, m, d, of_set, threads)); \
            }                                                                                                         \
        });                                                                                                           \
    }
UNCLUMP_FOR_BOTH(DEFINE)
