// The energy of points, the sum of a kernel over all pairs, and its gradient.
#pragma once

#include "../../../ops/native/kernel.hpp"
#include "pair_sums.hpp"

namespace unclump::codes {

class Energy {
  public:
    explicit Energy(const Kernel& kernel) : kernel_(kernel) {}

    // Infinite if points coincide, so that the line search backtracks.
    double operator()(const Columns& x, Columns& g) const {
        double energy = 0;
        with_kernel(kernel_, [&](auto kernel) {
            energy = sum_over_pairs<SquaredChord>(x, g, [&](const Pack& square) {
                Weight weight;
                const Pack below_four = square < kFarthest ? square : fill(kFarthest);
                kernel.at(kernel_, below_four, weight.value, weight.slope);
                const Mask coincide = square == 0;
                return Weight{coincide ? fill(infinity<double>) : weight.value, coincide ? Pack{} : weight.slope};
            });
        });
        return energy;
    }

    bool is_hopeless(double) const { return false; }

  private:
    static constexpr double kFarthest = 4 - 0x1p-50;  // the slope of an angle has no limit at opposite points

    Kernel kernel_;
};

}  // namespace unclump::codes
