// Polish: the local optimum near a code, to full precision, by a primal-dual interior-point method.
//
// The largest cosine is the least tau with <x_i, x_j> <= tau for all near pairs. With slacks s, multipliers l, A the
// rows of tangent gradients of the cosines and D = diag(l / s), a step solves
//
//     ( [H 0; 0 0] + [A, -1]^T D [A, -1] ) (delta, dtau) = ( -A^T mu / s, 1^T mu / s - 1 ).
//
// H is the Lagrangian's Hessian on the product of spheres, made more convex as long as the matrix is indefinite, by no
// more than that takes. Slacks are computed from the points, never extrapolated. A step must lower the barrier function
// -tau - mu sum log s, and mu falls when little is left to gain: otherwise a code that is no vertex of its constraints,
// as most are in many dimensions, comes to rest where no step keeps its slacks, before it has arrived.
//
// Every point has t = d - 1 unknowns, along an orthonormal basis of its tangent space: the first columns of the
// reflection I - p (x + sign e_d)^T, with p = (x + sign e_d) / (1 + |x_d|) and sign that of x_d, which takes x to
// -sign e_d. The a-th is e_a - x_a p, so that inner products of basis vectors need no sums. The last unknown is tau.
#pragma once

#include <numeric>

#include "descent.hpp"
#include "pair_sums.hpp"
#include "skyline.hpp"

namespace unclump::codes {

class Polish {
  public:
    // Pairs within `reach` times the smallest chord are constraints. At first, tau is below them by the part `margin`:
    // the larger it is, the farther the points may go.
    Polish(const Columns& x, Rows rows, double reach, double margin, double smallest_square)
        : y_(x),
          poles_(x.n, x.d),
          n_(x.n),
          d_(x.d),
          t_(x.d - 1),
          pairs_(near_pairs(x, 1 - reach * reach * smallest_square / 2, rows)),
          signs_(signs(rows)),
          matrix_(row_starts()),
          tau_((1 - margin) * smallest_square / 2),
          slack_(slacks(y_, tau_)),
          gains_(pairs_.count()),
          gradients_(pairs_.count() * 2 * t_),
          step_(matrix_.rows()) {
        double inverses = 0;
        for (const double slack : slack_) inverses += 1 / slack;
        mu_ = 1 / inverses;
        for (const double slack : slack_) multiplier_.push_back(mu_ / slack);
    }

    const Columns& points() const { return y_; }

    // One step; false if there is none.
    bool advance(double max_move) {
        if (!solve()) return false;
        const Columns moves = to_space();
        const double move = longest(moves), tau_change = step_[n_ * t_];
        if (!(0 < move && move < infinity<double>)) return false;
        const double before = barrier(slack_, tau_), slope = barrier_slope();
        Columns trial(n_, d_);
        primal_size_ = std::fmin(1, max_move / move);
        for (int attempt = 0; attempt < kAttempts; ++attempt, primal_size_ *= 0.5) {
            add_scaled(y_, primal_size_, moves, trial);
            normalise(trial);
            const double trial_tau = tau_ - primal_size_ * tau_change;
            const std::vector<double> trial_slack = slacks(trial, trial_tau);
            if (!keeps_slack(trial_slack)) continue;
            if (!(barrier(trial_slack, trial_tau) <= before + kDecrease * primal_size_ * slope + kLastDigit)) continue;
            step_multipliers();
            y_ = trial;
            slack_ = trial_slack;
            tau_ = trial_tau;
            is_settled_ = -slope < kSettled * mu_ * pairs_.count();
            return true;
        }
        return false;
    }

    // After a step: whether it converged, or a pair outside the constraints came too close; chooses mu for the next.
    bool is_done(double smallest_square) {
        if (is_settled_) mu_ *= primal_size_ == 1 && dual_size_ == 1 ? 0.02 : 0.2;
        return mu_ < kLastMu || smallest_square / 2 < tau_;
    }

  private:
    static constexpr double kRounding = 1e-13;
    static constexpr double kRegularisation = 1e-9;  // on the diagonal: keeps points without contacts in place
    static constexpr double kDecrease = 1e-4;        // of the barrier, as a part of what its slope promises
    static constexpr double kLastDigit = 1e-16, kLastMu = 1e-18;
    static constexpr double kSettled = 0.1;  // what is left to gain, in units of mu a pair
    static constexpr int kAttempts = 20;
    static constexpr int kLevels = 6;
    static constexpr double kConvexities[kLevels] = {0.0, 1.0 / 256, 1.0 / 64, 1.0 / 16, 1.0 / 4, 1.0};

    // The second point of a pair is the later one; tau, in the last row, meets all.
    std::vector<Index> row_starts() const {
        std::vector<Index> first(n_ * t_ + 1);
        for (Index row = 0; row < n_ * t_; ++row) first[row] = row / t_ * t_;
        pairs_.visit([&](Index i, Index j, Index) {
            for (Index a = 0; a < t_; ++a) first[j * t_ + a] = std::min(first[j * t_ + a], i * t_);
        });
        return first;
    }

    // Of two lines, the directions at the smaller angle: those of one may be minus the row.
    std::vector<double> signs(Rows rows) const {
        std::vector<double> sign(pairs_.count(), 1.0);
        pairs_.visit([&](Index i, Index j, Index e) {
            if (rows == Rows::lines && inner_product(y_, i, y_, j) < 0) sign[e] = -1;
        });
        return sign;
    }

    // tau stands for one minus the bound on the cosines, and slacks are from half a squared chord: no cancellation.
    std::vector<double> slacks(const Columns& x, double tau) const {
        std::vector<double> slack(pairs_.count());
        pairs_.visit([&](Index i, Index j, Index e) { slack[e] = squared_chord(x, i, j, signs_[e]) / 2 - tau; });
        return slack;
    }

    bool keeps_slack(const std::vector<double>& trial_slack) const {
        for (Index e = 0; e < pairs_.count(); ++e)
            if (!(trial_slack[e] / slack_[e] > 0.01)) return false;
        return true;
    }

    double barrier(const std::vector<double>& slack, double tau) const {
        double logarithms = 0;
        for (const double one : slack) logarithms += std::log(one);
        return -tau - mu_ * logarithms;
    }

    // Of the barrier along the step.
    double barrier_slope() const {
        double slope = step_[n_ * t_];
        for (Index e = 0; e < pairs_.count(); ++e) slope -= mu_ * gains_[e] / slack_[e];
        return slope;
    }

    double* gradient(Index pair, Index end) { return gradients_.data() + (2 * pair + end) * t_; }

    // With `convexity` one, the Lagrangian's Hessian is shifted to be positive semidefinite, with less by less.
    void assemble(double convexity) {
        const Index last = n_ * t_;
        matrix_.clear();
        for (Index row = 0; row < last; ++row) matrix_(row, row) = kRegularisation;
        pairs_.visit([&](Index i, Index j, Index e) {
            const double sign = signs_[e], cosine = sign * inner_product(y_, i, y_, j);
            const double pq = inner_product(poles_, i, poles_, j);
            const double py = inner_product(poles_, i, y_, j), qx = inner_product(y_, i, poles_, j);
            const double multiplier = multiplier_[e], weight = multiplier / slack_[e];
            const double curvature = multiplier * (convexity * (1 + cosine) - cosine);
            double *const of_i = gradient(e, 0), *const of_j = gradient(e, 1);
            for (Index a = 0; a < t_; ++a) {
                of_i[a] = sign * (y_[a][j] - y_[a][i] * py);
                of_j[a] = sign * (y_[a][i] - y_[a][j] * qx);
            }
            for (Index a = 0; a < t_; ++a) {
                const Index row_i = i * t_ + a, row_j = j * t_ + a;
                for (Index b = 0; b <= a; ++b) {
                    matrix_(row_i, i * t_ + b) += weight * of_i[a] * of_i[b];
                    matrix_(row_j, j * t_ + b) += weight * of_j[a] * of_j[b];
                }
                matrix_(row_i, row_i) += curvature;
                matrix_(row_j, row_j) += curvature;
                for (Index b = 0; b < t_; ++b) {
                    const double x = y_[b][i], y = y_[a][j];
                    const double inner = (a == b) - x * poles_[a][i] - y * poles_[b][j] + x * y * pq;
                    matrix_(row_j, i * t_ + b) += weight * of_j[a] * of_i[b] + multiplier * sign * inner;
                }
                matrix_(last, row_i) -= weight * of_i[a];
                matrix_(last, row_j) -= weight * of_j[a];
            }
            matrix_(last, last) += weight;
        });
    }

    // The vectors p of the points.
    void find_poles() {
        for (Index i = 0; i < n_; ++i) {
            const double last = y_[t_][i];
            for (Index k = 0; k < t_; ++k) poles_[k][i] = y_[k][i] / (1 + std::fabs(last));
            poles_[t_][i] = last < 0 ? -1 : 1;
        }
    }

    // The points' steps in coordinates of the space.
    Columns to_space() const {
        Columns moves(n_, d_);
        for (Index i = 0; i < n_; ++i) {
            const double* const step = step_.data() + i * t_;
            double along = 0;
            for (Index k = 0; k < t_; ++k) along += step[k] * y_[k][i];
            for (Index k = 0; k < d_; ++k) moves[k][i] = (k < t_ ? step[k] : 0) - along * poles_[k][i];
        }
        return moves;
    }

    // The step of points and tau, and what the slacks gain by it to first order; false if the system is indefinite even
    // when made convex.
    bool solve() {
        find_poles();
        bool is_solvable = false;
        for (level_ = std::max(0, level_ - 1); level_ < kLevels && !is_solvable; ++level_) {
            assemble(kConvexities[level_]);
            is_solvable = matrix_.factorise(kRounding);
        }
        if (!is_solvable) return false;
        --level_;  // where it was solved
        std::fill(step_.begin(), step_.end(), 0.0);
        pairs_.visit([&](Index i, Index j, Index e) {
            const double force = mu_ / slack_[e];
            step_[n_ * t_] += force;
            for (Index a = 0; a < t_; ++a) {
                step_[i * t_ + a] -= force * gradient(e, 0)[a];
                step_[j * t_ + a] -= force * gradient(e, 1)[a];
            }
        });
        step_[n_ * t_] -= 1;
        matrix_.solve(step_.data());
        pairs_.visit([&](Index i, Index j, Index e) {
            gains_[e] = step_[n_ * t_];
            for (Index a = 0; a < t_; ++a)
                gains_[e] -= gradient(e, 0)[a] * step_[i * t_ + a] + gradient(e, 1)[a] * step_[j * t_ + a];
        });
        return true;
    }

    // Towards (mu - l gain) / s, as far as the multipliers stay positive.
    void step_multipliers() {
        std::vector<double> change(pairs_.count());
        dual_size_ = 1;
        for (Index e = 0; e < pairs_.count(); ++e) {
            change[e] = (mu_ - multiplier_[e] * gains_[e]) / slack_[e] - multiplier_[e];
            if (change[e] < 0) dual_size_ = std::fmin(dual_size_, -0.99 * multiplier_[e] / change[e]);
        }
        for (Index e = 0; e < pairs_.count(); ++e) multiplier_[e] += dual_size_ * change[e];
    }

    Columns y_, poles_;
    Index n_, d_, t_;
    Pairs pairs_;
    std::vector<double> signs_;
    Skyline matrix_;
    double tau_, mu_ = 0, primal_size_ = 1, dual_size_ = 1;
    bool is_settled_ = false;
    int level_ = 0;  // of convexity, at the last step: the next begins one lower
    std::vector<double> slack_, multiplier_, gains_, gradients_, step_;
};

// Improves a code of unit points, or of lines, in place, or leaves it unchanged; returns the smallest squared chord.
// If other pairs come closer than those within reach allow, it stops: call it again.
inline double polish(Columns& x, Rows rows, double reach, double margin, Index steps, Stop stop) {
    double best = smallest_squared_chord(x, rows);
    if (!(best >= 1e-12)) return best;  // coinciding points have no gradient
    std::vector<Index> order(x.n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return x[x.d - 1][i] < x[x.d - 1][j]; });
    Columns sorted(x.n, x.d);
    for (Index k = 0; k < x.d; ++k)
        for (Index i = 0; i < x.n; ++i) sorted[k][i] = x[k][order[i]];
    Polish method(sorted, rows, reach, margin, best);
    const double max_move = (reach - 1) * std::sqrt(best) / 4;
    for (Index step = 0; step < steps && !stop && method.advance(max_move); ++step) {
        const double square = smallest_squared_chord(method.points(), rows);
        if (square > best) {
            best = square;
            for (Index k = 0; k < x.d; ++k)
                for (Index i = 0; i < x.n; ++i) x[k][order[i]] = method.points()[k][i];
        }
        if (method.is_done(square)) break;
    }
    return best;
}

}  // namespace unclump::codes
