// The plain C interface, called through ctypes. Points are rows, contiguous, checked by the caller.
//
// Results are NaN if memory is short: no exception may leave a C function.
#include <exception>

#include "anneal.hpp"
#include "energy.hpp"
#include "orbits.hpp"
#include "overlap.hpp"
#include "polish.hpp"

using namespace unclump::codes;

namespace {

template <class Body>
double result_or_nan(Body body) noexcept {
    try {
        return body();
    } catch (const std::exception&) {
        return std::numeric_limits<double>::quiet_NaN();
    }
}

template <class Body>  // improves the points in place
double improve(double* rows, Index n, Index d, Body body) noexcept {
    return result_or_nan([&] {
        Columns x(rows, n, d);
        const double result = body(x);
        x.write_rows(rows);
        return result;
    });
}

template <class Objective>  // the value at the directions of the rows, and its gradient with respect to them
double value_and_gradient(const double* rows, double* gradient, Objective objective, Index n, Index d) {
    Columns u(rows, n, d), x(n, d), g(n, d);
    const double value = evaluate(objective, u, x, g);
    g.write_rows(gradient);
    return value;
}

Rows rows_of(Index antipodal) {
    return antipodal ? Rows::lines : Rows::points;
}

Kernel make_kernel(Index form, Index metric, double parameter, double offset) {
    return {static_cast<Form>(form), static_cast<Metric>(metric), parameter, offset};
}

}  // namespace

UNCLUMP_EXPORT double unclump_codes_anneal(double* points, Index n, Index d, double softest, double sharpest,
                                           Index iterations, double tolerance, double spacing,
                                           const unsigned char* stop) {
    return improve(points, n, d, [&](Columns& x) {
        return anneal(x, {softest, sharpest, iterations, tolerance}, spacing, Stop{stop});
    });
}

// Of `orbits` representatives, whose images are the matrices times them: see Orbits.
UNCLUMP_EXPORT double unclump_codes_anneal_orbits(double* points, Index orbits, Index d, const double* matrices,
                                                  const Index* sizes, double softest, double sharpest, Index iterations,
                                                  double tolerance, double spacing, const unsigned char* stop) {
    return improve(points, orbits, d, [&](Columns& u) {
        return anneal_orbits(u, Orbits(matrices, sizes, orbits, d), {softest, sharpest, iterations, tolerance}, spacing,
                             Stop{stop});
    });
}

// Of lines if `antipodal` is not zero.
UNCLUMP_EXPORT double unclump_codes_polish(double* points, Index n, Index d, Index antipodal, double reach,
                                           double margin, Index steps, const unsigned char* stop) {
    return improve(points, n, d,
                   [&](Columns& x) { return polish(x, rows_of(antipodal), reach, margin, steps, Stop{stop}); });
}

UNCLUMP_EXPORT double unclump_codes_smallest_squared_chord(const double* points, Index n, Index d, Index antipodal) {
    return result_or_nan([&] { return smallest_squared_chord(Columns(points, n, d), rows_of(antipodal)); });
}

UNCLUMP_EXPORT double unclump_codes_minimise_energy(double* points, Index n, Index d, Index form, Index metric,
                                                    double parameter, double offset, Index iterations, double tolerance,
                                                    double spacing, const unsigned char* stop) {
    return improve(points, n, d, [&](Columns& x) {
        Energy energy(make_kernel(form, metric, parameter, offset));
        const double value = minimise(x, energy, iterations, tolerance, spacing, Stop{stop});
        normalise(x);
        return value;
    });
}

UNCLUMP_EXPORT double unclump_codes_minimise_overlap(double* points, Index n, Index d, double square, Index iterations,
                                                     double tolerance, double limit, const unsigned char* stop) {
    return improve(points, n, d, [&](Columns& x) {
        normalise(x);
        Overlap overlap(x, square, limit);
        const double value = minimise(x, overlap, iterations, tolerance, std::sqrt(square), Stop{stop});
        normalise(x);
        return value;
    });
}

UNCLUMP_EXPORT double unclump_codes_energy(const double* points, Index n, Index d, double* gradient, Index form,
                                           Index metric, double parameter, double offset) {
    return result_or_nan([&] {
        return value_and_gradient(points, gradient, Energy(make_kernel(form, metric, parameter, offset)), n, d);
    });
}

// Over the pairs with a cosine above `threshold`; over all without a list of pairs if it is below -1.
UNCLUMP_EXPORT double unclump_codes_soft_maximum(const double* points, Index n, Index d, double* gradient,
                                                 double sharpness, double reference, double threshold) {
    return result_or_nan([&] {
        if (threshold < -1) return value_and_gradient(points, gradient, SoftMaximum(sharpness, reference), n, d);
        Columns origin(points, n, d);
        normalise(origin);
        NearList near(origin, std::sqrt(2 - 2 * threshold), 0);
        return value_and_gradient(points, gradient, SoftMaximumOfNear(sharpness, reference, near), n, d);
    });
}

// Solves a symmetric system of which the lower triangle is given, zero in row i before column first[i]; replaces b.
// 1 if it is positive semidefinite, otherwise 0.
UNCLUMP_EXPORT double unclump_codes_solve_skyline(const double* matrix, Index size, const Index* first, double* b) {
    return result_or_nan([&] {
        Skyline skyline(std::vector<Index>(first, first + size));
        skyline.clear();
        for (Index i = 0; i < size; ++i)
            for (Index j = first[i]; j <= i; ++j) skyline(i, j) = matrix[i * size + j];
        if (!skyline.factorise(1e-13)) return 0.0;
        std::vector<double> padded(skyline.rows());
        std::copy_n(b, size, padded.begin());
        skyline.solve(padded.data());
        std::copy_n(padded.begin(), size, b);
        return 1.0;
    });
}
