// The overlap of points with a target distance D: the sum over pairs of (D^2 - |x_i - x_j|^2)^2 where it is positive.
#pragma once

#include "near_list.hpp"

namespace unclump::codes {

class Overlap {
  public:
    // limit: a descent ends early if it will not come below it, as far as its last iterations tell.
    Overlap(const Columns& x, double square, double limit)
        : square_(square), limit_(limit), near_(x, std::sqrt(square), kSkin * std::sqrt(square)) {}

    // At unit points, with the gradient up to its radial part.
    double operator()(const Columns& x, Columns& g) { return near_.is_sparse() ? over_near(x, g) : over_all(x, g); }

    bool is_hopeless(double value) {
        if (++iterations_ % kInterval != 0) return false;
        const double decrease = last_ - value;
        last_ = value;
        return iterations_ >= 3 * kInterval && value - 3 * decrease > limit_;
    }

  private:
    double over_near(const Columns& x, Columns& g) {
        std::fill_n(g.data(), g.size(), 0.0);
        double total = 0;
        near_.at(x).visit([&](Index i, Index j, Index) {
            const double overlap = square_ - 2 + 2 * inner_product(x, i, x, j);
            if (overlap <= 0) return;
            total += overlap * overlap;
            for (Index k = 0; k < x.d; ++k) {
                g[k][i] += 4 * overlap * x[k][j];
                g[k][j] += 4 * overlap * x[k][i];
            }
        });
        return total;
    }

    double over_all(const Columns& x, Columns& g) const {
        return sum_over_pairs<Cosine>(x, g, [&](const Pack& cosine) {
            const Pack overlap = larger(square_ - 2 + 2 * cosine, Pack{});
            return Weight{overlap * overlap, 4 * overlap};
        });
    }

    static constexpr double kSkin = 0.2;
    static constexpr Index kInterval = 10;

    double square_, limit_, last_ = infinity<double>;
    Index iterations_ = 0;
    NearList near_;
};

}  // namespace unclump::codes
