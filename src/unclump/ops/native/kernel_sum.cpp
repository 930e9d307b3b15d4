#include "kernel_sum.hpp"

#include "project.hpp"

namespace {

// What T does not hold becomes its largest number.
template <class T>
T narrow(double number) {
    constexpr double most = std::numeric_limits<T>::max();
    return static_cast<T>(number > most ? most : number < -most ? -most : number);
}

// The sums of every point and `factor` times the gradient of their weighted sum; the gradient may be null.
template <class T>
void sum_with_gradient(const Kernel& kernel, const Table<T>& points, const Table<T>* others, Index d, Index itself,
                       double factor, T* sums, T* gradient, Index threads) {
    const KernelSum<T> pass(kernel, points, others, d, itself, gradient != nullptr, threads);
    for (Index i = 0; i < points.n; ++i) sums[i] = narrow<T>(pass.sums[i]);
    if (gradient == nullptr) return;
    in_parallel(points.n, threads, [&](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) {
            pass.force(i, gradient + i * d);
            for (Index k = i * d; k < (i + 1) * d; ++k)
                gradient[k] = narrow<T>(factor * static_cast<double>(gradient[k]));
        }
    });
}

// The mean over all ordered pairs of the embeddings' directions, and the gradient by the embeddings.
template <class T>
T mean_over_pairs(const Kernel& kernel, const T* embeddings, Index n, Index d, T* gradient, Index threads) {
    Buffer<T> x(n * d), inverse(n);
    project_rows(embeddings, x.get(), inverse.get(), n, d, threads);
    require_directions(inverse.get(), n);
    const Table<T> points{x.get(), n, {}};
    const KernelSum<T> pass(kernel, points, nullptr, d, 0, gradient != nullptr, threads);
    const double pairs = static_cast<double>(n) * static_cast<double>(n - 1);
    double total = 0;
    for (Index i = 0; i < n; ++i) total += pass.sums[i];
    in_parallel(gradient == nullptr ? 0 : n, threads, [&](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) {
            pass.force(i, gradient + i * d);
            project_row_back(x.get() + i * d, inverse[i], static_cast<T>(4 / pairs), gradient + i * d, d);
        }
    });
    return narrow<T>(total / pairs);
}

}  // namespace

// `left` and `right` are weights of the points, `others_left` and `others_right` of the others: all of them or none.
#define DEFINE(T)                                                                                                      \
    UNCLUMP_EXPORT int unclump_mean_over_pairs_##T(const T* x, T* values, T* gradient, Index sets, Index n, Index d,   \
                                                   Index form, Index metric, double parameter, double offset,          \
                                                   Index threads) {                                                    \
        return guarded([&] {                                                                                           \
            const Kernel kernel{static_cast<Form>(form), static_cast<Metric>(metric), parameter, offset};              \
            for (Index set = 0; set < sets; ++set) {                                                                   \
                T* const of_set = gradient == nullptr ? nullptr : gradient + set * n * d;                              \
                values[set] = mean_over_pairs(kernel, x + set * n * d, n, d, of_set, threads);                         \
            }                                                                                                          \
        });                                                                                                            \
    }                                                                                                                  \
    UNCLUMP_EXPORT int unclump_kernel_sum_##T(                                                                         \
        const T* x, const T* y, const T* left, const T* right, const T* others_left, const T* others_right, T* sums,   \
        T* gradient, Index sets, Index n, Index m, Index d, Index itself, Index form, Index metric, double parameter,  \
        double offset, double factor, Index threads) {                                                                 \
        return guarded([&] {                                                                                           \
            const Kernel kernel{static_cast<Form>(form), static_cast<Metric>(metric), parameter, offset};              \
            const auto part = [](const T* of, Index place) { return of == nullptr ? nullptr : of + place; };           \
            for (Index set = 0; set < sets; ++set) {                                                                   \
                const Table<T> points{x + set * n * d, n, {part(left, set * n), part(right, set * n)}};                \
                const Table<T> others{                                                                                 \
                    part(y, set * m * d), m, {part(others_left, set * m), part(others_right, set * m)}};               \
                sum_with_gradient(kernel, points, y == nullptr ? nullptr : &others, d, itself, factor, sums + set * n, \
                                  gradient == nullptr ? nullptr : gradient + set * n * d, threads);                    \
            }                                                                                                          \
        });                                                                                                            \
    }
UNCLUMP_FOR_BOTH(DEFINE)
