// The soft maximum of the cosines, f(x) = log(sum over pairs of exp(s <x_i, x_j>)) / s, over all pairs or near ones.
//
// The exponents are taken relative to a reference, so that they do not overflow near it. Far above it f is large or
// infinite, and the line search backtracks.
#pragma once

#include "near_list.hpp"

namespace unclump::codes {

constexpr double kFar = -36;  // terms below e^kFar of the reference are negligible

class SoftMaximum {
  public:
    SoftMaximum(double sharpness, double reference) : sharpness_(sharpness), reference_(reference) {}

    // Value at unit points, and the gradient in space, which need not be tangent; infinite unless it is finite.
    double operator()(const Columns& x, Columns& g) const {
        const double total = sum_over_pairs<Cosine>(x, g, [&](Pack cosine) {
            const Pack power = exponential(sharpness_ * (cosine - reference_));
            return Weight{power, power};
        });
        return finish(total, g);
    }

    bool is_hopeless(double) const { return false; }

  protected:
    double finish(double total, Columns& g) const {
        if (!(0 < total && total < infinity<double>)) return infinity<double>;
        for (Index i = 0; i < g.size(); i += kLanes) store(g.data() + i, load(g.data() + i) / total);
        return reference_ + std::log(total) / sharpness_;
    }

    double sharpness_, reference_;
};

// The same over the pairs of a list, which has all that matter.
class SoftMaximumOfNear : public SoftMaximum {
  public:
    SoftMaximumOfNear(double sharpness, double reference, NearList& near)
        : SoftMaximum(sharpness, reference), near_(near), powers_(0) {}

    // First all cosines, then all exponentials, by packs, then the gradient: only the second vectorises.
    double operator()(const Columns& x, Columns& g) {
        const Pairs& pairs = near_.at(x);
        const Index count = pairs.count();
        if (count > capacity_) {
            capacity_ = 2 * count;
            powers_ = Numbers(capacity_ + kLanes);
        }
        pairs.visit([&](Index i, Index j, Index e) { powers_[e] = inner_product(x, i, x, j); });
        Pack total{};
        for (Index e = 0; e < count; e += kLanes) {
            const Pack power = exponential(sharpness_ * (load(powers_.data() + e) - reference_));
            total += lanes_between(-1, e, count) ? power : Pack{};
            store(powers_.data() + e, power);
        }
        std::fill_n(g.data(), g.size(), 0.0);
        pairs.visit([&](Index i, Index j, Index e) {
            for (Index k = 0; k < x.d; ++k) {
                g[k][i] += powers_[e] * x[k][j];
                g[k][j] += powers_[e] * x[k][i];
            }
        });
        return finish(sum<double>(total), g);
    }

  private:
    NearList& near_;
    Numbers powers_;
    Index capacity_ = 0;
};

}  // namespace unclump::codes
