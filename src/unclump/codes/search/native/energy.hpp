// The energy of points, the sum of a kernel over all pairs, and its gradient.
#pragma once

#include "pair_sums.hpp"

namespace unclump::codes {

enum class Kind { gaussian, laplace, riesz };
enum class Distance { chordal, geodesic, shifted };

// A kernel of unclump.kernels: its value and its derivative by the squared chord.
struct Kernel {
    Kind kind;
    Distance distance;
    double parameter;

    Weight operator()(const Pack& squared_chord) const {
        Pack square = squared_chord, inner = fill(1.0);
        if (distance == Distance::geodesic) {
            const Pack chord = square_root(square), rest = square_root(larger(4 - square, Pack{}));
            const Pack angle = 2 * arc_tangent_of_ratio(chord, rest), sine = chord * rest / 2;
            square = angle * angle;
            inner = sine > 0 ? angle / sine : inner;
        } else if (distance == Distance::shifted) {
            square = 1 + square / 2;
            inner = fill(0.5);
        }
        Weight weight = of_square(square);
        weight.slope *= inner;
        const Mask coincides = squared_chord == 0;  // refused: the line search backtracks
        return {coincides ? fill(infinity<double>) : weight.value, coincides ? Pack{} : weight.slope};
    }

  private:
    Weight of_square(const Pack& square) const {
        if (kind == Kind::gaussian) {
            const bool is_chordal = distance == Distance::chordal;
            const double rate = is_chordal ? parameter / 2 : parameter;
            const Pack value = exponential((is_chordal ? parameter : 0) - rate * square);
            return {value, -rate * value};
        }
        if (kind == Kind::laplace) {
            const Pack length = square_root(square), value = exponential(-parameter * length);
            return {value, -parameter / 2 * value / length};
        }
        if (parameter == 0) return {logarithm(square) / -2, -0.5 / square};
        const Pack power = parameter == 1 ? 1 / square_root(square) : exponential(-parameter / 2 * logarithm(square));
        return {parameter < 0 ? -power : power, -std::fabs(parameter) / 2 * power / square};
    }
};

class Energy {
  public:
    explicit Energy(Kernel kernel) : kernel_(kernel) {}

    double operator()(const Columns& x, Columns& g) const { return sum_over_pairs<SquaredChord>(x, g, kernel_); }

    bool is_valid(const Columns&) const { return true; }

  private:
    Kernel kernel_;
};

}  // namespace unclump::codes
