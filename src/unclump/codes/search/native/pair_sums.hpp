// Sums over all pairs of points, with their gradients; the largest cosine; the near pairs, and sums over them.
#pragma once

#include <algorithm>

#include "columns.hpp"

namespace unclump::codes {

struct Weight {
    Pack value;  // added to the sum
    Pack slope;  // its derivative by the measure of the pair
};

// Sums over pairs are of functions of a measure that is itself a sum over coordinates: the cosine or the squared chord.
struct Cosine {
    static Pack measure(double a, Pack b) { return a * b; }
    static Pack slope_first(double, Pack b) { return b; }
    static Pack slope_second(double a, Pack) { return fill(a); }
};

struct SquaredChord {
    static Pack measure(double a, Pack b) { return (a - b) * (a - b); }
    static Pack slope_first(double a, Pack b) { return 2 * (a - b); }
    static Pack slope_second(double a, Pack b) { return 2 * (b - a); }
};

// The sum of weigh(measure).value over all pairs of points; its gradient into g.
// Four points are taken against a pack of later ones, so that loads are shared and chains of operations overlap.
template <class Measure, class Weigh>
double sum_over_pairs(const Columns& x, Columns& g, const Weigh& weigh) {
    constexpr Index tile = 4;
    const Index n = x.n, d = x.d;
    Numbers sums(d * tile * kLanes);  // over later points, of the gradient by the four
    Pack total{};
    std::fill_n(g.data(), g.size(), 0.0);
    for (Index i = 0; i + 1 < n; i += tile) {
        std::fill_n(sums.data(), d * tile * kLanes, 0.0);
        for (Index j = (i + 1) / kLanes * kLanes; j < n; j += kLanes) {
            Pack measure[tile] = {};
            for (Index k = 0; k < d; ++k) {
                const Pack later = load(x[k] + j);
                for (Index r = 0; r < tile; ++r) measure[r] += Measure::measure(x[k][i + r], later);
            }
            Pack slope[tile];
            for (Index r = 0; r < tile; ++r) {
                const Mask is_pair = lanes_between(i + r, j, n);
                const Weight weight = weigh(is_pair ? measure[r] : Pack{});
                total += is_pair ? weight.value : Pack{};
                slope[r] = is_pair ? weight.slope : Pack{};
            }
            for (Index k = 0; k < d; ++k) {
                const Pack later = load(x[k] + j);
                Pack later_slope = load(g[k] + j);
                for (Index r = 0; r < tile; ++r) {
                    double* const sum = sums.data() + (k * tile + r) * kLanes;
                    store(sum, load(sum) + slope[r] * Measure::slope_first(x[k][i + r], later));
                    later_slope += slope[r] * Measure::slope_second(x[k][i + r], later);
                }
                store(g[k] + j, later_slope);
            }
        }
        for (Index r = 0; r < tile && i + r < n; ++r)
            for (Index k = 0; k < d; ++k) g[k][i + r] += sum<double>(load(sums.data() + (k * tile + r) * kLanes));
    }
    return sum<double>(total);
}

// Calls visit(i, j, cosines of point i with points j, j + 1, ..., mask of those after i).
template <class Visit>
void visit_cosines(const Columns& x, Visit visit) {
    for (Index i = 0; i + 1 < x.n; ++i)
        for (Index j = (i + 1) / kLanes * kLanes; j < x.n; j += kLanes) {
            Pack cosine{};
            for (Index k = 0; k < x.d; ++k) cosine += x[k][i] * load(x[k] + j);
            visit(i, j, cosine, lanes_between(i, j, x.n));
        }
}

// Whether rows are points, or lines through the origin, which have two directions.
enum class Rows { points, lines };

// The cosine of the smaller angle of lines, that of the angle of points.
inline Pack cosine_of(Rows rows, const Pack& cosine) {
    return rows == Rows::lines ? larger(cosine, -cosine) : cosine;
}

// The cosine of the closest pair, where pairs with NaN do not count; -1 if there is none.
inline double largest_cosine(const Columns& x, Rows rows = Rows::points) {
    Pack running = fill(-1.0);
    visit_cosines(x, [&](Index, Index, Pack cosine, Mask is_later) {
        running = larger(is_later ? cosine_of(rows, cosine) : fill(-1.0), running);
    });
    return largest<double>(running);
}

// The later partners of point i are partner[start[i]], ..., partner[start[i + 1] - 1].
struct Pairs {
    std::vector<Index> start;
    std::vector<std::int32_t> partner;

    Index count() const { return static_cast<Index>(partner.size()); }

    template <class Visit>  // visit(i, j, number of the pair)
    void visit(Visit visit) const {
        for (Index i = 0; i + 1 < static_cast<Index>(start.size()); ++i)
            for (Index e = start[i]; e < start[i + 1]; ++e) visit(i, static_cast<Index>(partner[e]), e);
    }
};

// The pairs with a cosine above the threshold.
inline Pairs near_pairs(const Columns& x, double threshold, Rows rows = Rows::points) {
    Pairs pairs{std::vector<Index>(x.n + 1), std::vector<std::int32_t>(8 * x.n + kLanes)};
    Index count = 0;
    visit_cosines(x, [&](Index i, Index j, Pack cosine, Mask is_later) {
        if (count + kLanes > pairs.count()) pairs.partner.resize(2 * pairs.count());
        const Mask is_near = is_later & (cosine_of(rows, cosine) > threshold);
        for (Index lane = 0; lane < kLanes; ++lane) {  // overwritten by the next unless it counts
            pairs.partner[count] = static_cast<std::int32_t>(j + lane);
            count -= is_near[lane];
        }
        pairs.start[i + 1] = count;
    });
    pairs.start[x.n] = count;
    pairs.partner.resize(count);
    return pairs;
}

// The smallest squared chord, from coordinate differences of the closest pairs; of points that are not finite zero, as
// of the worst code. NaN would say that memory is short.
inline double smallest_squared_chord(const Columns& x, Rows rows = Rows::points) {
    if (!is_finite(x)) return 0;
    double smallest = 4;
    near_pairs(x, largest_cosine(x, rows) - 1e-9, rows).visit([&](Index i, Index j, Index) {
        smallest = std::min(smallest, squared_chord(x, i, j));
        if (rows == Rows::lines) smallest = std::min(smallest, squared_chord(x, i, j, -1));
    });
    return smallest;
}

}  // namespace unclump::codes
