// The near pairs of points that move: a list that is made again only when some point has moved far.
#pragma once

#include "pair_sums.hpp"

namespace unclump::codes {

class NearList {
  public:
    // The pairs within `chord` at any later position; `skin` is how far a point may move before the list is renewed.
    NearList(const Columns& x, double chord, double skin) : cut_(chord + 2 * skin), skin_(skin), origin_(x) {
        renew(x);
    }

    // Whether there are so few that a sum over them takes less time than one over all pairs, by packs.
    bool is_sparse() const { return 8 * pairs_.count() < origin_.n * (origin_.n - 1); }

    const Pairs& at(const Columns& x) {
        if (farthest_move(x) > skin_ * skin_) renew(x);
        return pairs_;
    }

  private:
    void renew(const Columns& x) {
        pairs_ = near_pairs(x, 1 - cut_ * cut_ / 2);
        origin_.copy_from(x);
    }

    double farthest_move(const Columns& x) const {  // squared
        Pack farthest{};
        for (Index i = 0; i < x.n; i += kLanes) {
            Pack square{};
            for (Index k = 0; k < x.d; ++k) {
                const Pack move = load(x[k] + i) - load(origin_[k] + i);
                square += move * move;
            }
            farthest = larger(square, farthest);
        }
        return largest<double>(farthest);
    }

    double cut_, skin_;
    Columns origin_;
    Pairs pairs_;
};

}  // namespace unclump::codes
