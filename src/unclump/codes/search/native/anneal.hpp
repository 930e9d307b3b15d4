// Annealing: minimise the soft maximum of the cosines, sharpened step by step, down to a local optimum.
//
// At sharpness s = p / r^2, where r is the least chord, a pair at the chord q weighs exp(-p/2 (q^2 / r^2 - 1)): at p =
// 4 points feel each other over several spacings, at p = 2048 only the pairs that are all but active.
#pragma once

#include "descent.hpp"
#include "soft_maximum.hpp"

namespace unclump::codes {

struct Schedule {
    double softest, sharpest;  // the first p, doubled until it exceeds the last
    Index iterations;          // at most, for each p
    double tolerance;          // on the decrease per iteration, relative to the squared spacing over p
};

// Minimises at every p of the schedule, in place, and returns the smallest squared chord.
//   spacing: estimate of the final smallest chord, as a start may contain coinciding points.
inline double anneal(Columns& x, const Schedule& schedule, double spacing, Stop stop) {
    for (double p = schedule.softest; p <= schedule.sharpest && !stop; p *= 2) {
        normalise(x);
        const double square = std::fmax(2 - 2 * largest_cosine(x), 0.4 * spacing * spacing);
        const double chord = std::sqrt(square), sharpness = p / square, reference = 1 - square / 2;
        const double tolerance = schedule.tolerance * square / p;
        const double skin = std::fmin(0.3, 8 / p + 0.03) * chord;
        const double matters = std::sqrt(square * (1 - 2 * kFar / p));
        if (matters + 2 * skin < 1.2) {
            NearList near(x, matters, skin);
            if (near.is_sparse()) {
                SoftMaximumOfNear objective(sharpness, reference, near);
                minimise(x, objective, schedule.iterations, tolerance, chord, stop);
                continue;
            }
        }
        SoftMaximum objective(sharpness, reference);
        minimise(x, objective, schedule.iterations, tolerance, chord, stop);
    }
    normalise(x);
    return smallest_squared_chord(x);
}

}  // namespace unclump::codes
