// The overlap of points with a target distance D: the sum over pairs of (D^2 - |x_i - x_j|^2)^2 where it is positive.
#pragma once

#include "pair_sums.hpp"

namespace unclump::codes {

class Overlap {
  public:
    explicit Overlap(double square) : square_(square) {}

    double operator()(const Columns& x, Columns& g) const {
        return sum_over_pairs<SquaredChord>(x, g, [&](const Pack& square) {
            const Pack overlap = larger(square_ - square, Pack{});
            return Weight{overlap * overlap, -2 * overlap};
        });
    }

    bool is_valid(const Columns&) const { return true; }

  private:
    double square_;
};

}  // namespace unclump::codes
