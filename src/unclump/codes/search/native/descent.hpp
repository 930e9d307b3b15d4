// L-BFGS on the product of spheres: points are the directions of free vectors.
//
// The vectors are normalised at first and stay close to unit length, since the gradient is tangent.
// Nocedal. Updating quasi-Newton matrices with limited storage. Mathematics of Computation, 1980.
#pragma once

#include <array>

#include "columns.hpp"

namespace unclump::codes {

// A flag that another thread sets to end a loop early.
struct Stop {
    const unsigned char* flag;
    explicit operator bool() const { return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }
};

inline double dot(const Columns& a, const Columns& b) {
    Pack products{};
    for (Index i = 0; i < a.size(); i += kLanes) products += load(a.data() + i) * load(b.data() + i);
    return sum<double>(products);
}

// out = a + factor b; out may be a.
inline void add_scaled(const Columns& a, double factor, const Columns& b, Columns& out) {
    for (Index i = 0; i < a.size(); i += kLanes)
        store(out.data() + i, load(a.data() + i) + factor * load(b.data() + i));
}

// The objective at the directions of the vectors u, and its gradient with respect to u. x holds the directions.
template <class Objective>
double evaluate(Objective& objective, const Columns& u, Columns& x, Columns& g) {
    x.copy_from(u);
    normalise(x);
    const double value = objective(x, g);
    for (Index i = 0; i < u.n; i += kLanes) {
        const Pack radial = inner_products(g, x, i);
        const Pack scale = reciprocal_or_zero(inner_products(u, x, i));
        for (Index k = 0; k < u.d; ++k) store(g[k] + i, (load(g[k] + i) - radial * load(x[k] + i)) * scale);
    }
    return value;
}

// The last steps and changes of the gradient, in a ring.
class Memory {
  public:
    Memory(Index n, Index d) {
        for (Index m = 0; m <= kDepth; ++m) entries_.push_back({Columns(n, d), Columns(n, d), 0});
    }

    bool is_empty() const { return count_ == 0; }
    void clear() { count_ = 0; }

    // Keeps the step unless its curvature is not positive.
    void remember(const Columns& u, const Columns& next_u, const Columns& g, const Columns& next_g) {
        Entry& entry = entries_[count_ % (kDepth + 1)];
        add_scaled(next_u, -1, u, entry.step);
        add_scaled(next_g, -1, g, entry.change);
        entry.curvature = dot(entry.step, entry.change);
        const double squares = dot(entry.step, entry.step) * dot(entry.change, entry.change);
        if (entry.curvature > 1e-12 * std::sqrt(squares)) ++count_;
    }

    // Minus the approximate inverse Hessian times the gradient: the two-loop recursion.
    void direction(const Columns& g, Columns& q) const {
        add_scaled(g, -2, g, q);
        const Index stored = std::min(count_, kDepth);
        std::array<double, kDepth> factors;
        for (Index back = 0; back < stored; ++back) {
            const Entry& entry = newest(back);
            factors[back] = dot(entry.step, q) / entry.curvature;
            add_scaled(q, -factors[back], entry.change, q);
        }
        if (stored > 0) {
            const Entry& entry = newest(0);
            add_scaled(q, entry.curvature / dot(entry.change, entry.change) - 1, q, q);
        }
        for (Index back = stored; back-- > 0;) {
            const Entry& entry = newest(back);
            add_scaled(q, factors[back] - dot(entry.change, q) / entry.curvature, entry.step, q);
        }
    }

  private:
    struct Entry {
        Columns step, change;
        double curvature;
    };
    static constexpr Index kDepth = 10;

    const Entry& newest(Index back) const { return entries_[(count_ - 1 - back) % (kDepth + 1)]; }

    std::vector<Entry> entries_;  // one more than the depth: the next is written before it is known to count
    Index count_ = 0;
};

// Minimises the objective, in place, and returns its value; ends early if the objective calls it hopeless.
//   tolerance: stops after three consecutive decreases below it.
//   spacing: a typical distance of neighbours; the first step moves no point by more than a twentieth of it.
template <class Objective>
double minimise(Columns& u, Objective& objective, Index iterations, double tolerance, double spacing, Stop stop) {
    constexpr double sufficient = 1e-4;  // Armijo condition: fraction of the decrease predicted by the gradient
    Columns g(u.n, u.d), trial(u.n, u.d), trial_g(u.n, u.d), direction(u.n, u.d), unit(u.n, u.d);
    Memory memory(u.n, u.d);
    normalise(u);
    double value = evaluate(objective, u, unit, g);
    int small = 0;
    for (Index iteration = 0; iteration < iterations; ++iteration) {
        if (stop) break;
        memory.direction(g, direction);
        const double slope = dot(direction, g);
        double size = (memory.is_empty() ? 0.05 : 0.5) * spacing / longest(direction);
        if (!memory.is_empty()) size = std::fmin(1, size);
        double trial_value = infinity<double>;
        for (int attempt = 0; slope < 0 && attempt < 30; ++attempt) {
            add_scaled(u, size, direction, trial);
            trial_value = evaluate(objective, trial, unit, trial_g);
            if (trial_value <= value + sufficient * size * slope) break;
            const double above = trial_value - value - slope * size;
            const bool is_parabola = 0 < above && above < infinity<double>;  // step to its minimum, within limits
            size *= is_parabola ? std::fmin(0.5, std::fmax(0.1, -slope * size / (2 * above))) : 0.2;
            trial_value = infinity<double>;
        }
        if (!(trial_value < infinity<double>)) {  // no descent: along the gradient next, unless it was the gradient
            if (memory.is_empty()) break;
            memory.clear();
            continue;
        }
        memory.remember(u, trial, g, trial_g);
        std::swap(u, trial);
        std::swap(g, trial_g);
        small = value - trial_value < tolerance ? small + 1 : 0;
        value = trial_value;
        if (small == 3 || objective.is_hopeless(value)) break;
    }
    return value;
}

}  // namespace unclump::codes
