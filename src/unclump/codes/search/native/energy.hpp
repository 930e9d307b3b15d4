// The energy of points, the sum of a kernel over all pairs, and its gradient.
#pragma once

#include <limits>

#include "pair_sums.hpp"

namespace unclump::codes {

enum class Kind { gaussian, laplace, riesz };
enum class Distance { chordal, geodesic, shifted };

// A kernel of unclump.kernels: its value and its derivative by the squared chord.
struct Kernel {
    Kind kind;
    Distance distance;
    double parameter;

    struct At {
        double value, slope;
    };

    At operator()(double squared_chord) const {
        if (squared_chord == 0) return {std::numeric_limits<double>::infinity(), 0};  // coinciding points are refused
        double square = squared_chord, inner = 1;
        if (distance == Distance::geodesic) {
            const double angle = 2 * std::atan2(std::sqrt(square), std::sqrt(std::fmax(4 - square, 0)));
            const double sine = std::sin(angle);
            square = angle * angle;
            inner = sine > 0 ? angle / sine : 1;
        } else if (distance == Distance::shifted) {
            square = 1 + square / 2;
            inner = 0.5;
        }
        const At outer = of_square(square);
        return {outer.value, outer.slope * inner};
    }

  private:
    At of_square(double square) const {
        if (kind == Kind::gaussian) {
            const bool is_chordal = distance == Distance::chordal;
            const double rate = is_chordal ? parameter / 2 : parameter;
            const double value = std::exp((is_chordal ? parameter : 0) - rate * square);
            return {value, -rate * value};
        }
        if (kind == Kind::laplace) {
            const double length = std::sqrt(square), value = std::exp(-parameter * length);
            return {value, -parameter / 2 * value / length};
        }
        if (parameter == 0) return {-std::log(square) / 2, -0.5 / square};
        const double power = parameter == 1 ? 1 / std::sqrt(square) : std::pow(square, -parameter / 2);
        return {parameter < 0 ? -power : power, -std::fabs(parameter) / 2 * power / square};
    }
};

class Energy {
  public:
    explicit Energy(Kernel kernel) : kernel_(kernel) {}

    double operator()(const Columns& x, Columns& g) const {
        return sum_over_pairs<SquaredChord>(x, g, [&](Pack square) {
            Weight weight;
            for (Index lane = 0; lane < kLanes; ++lane) {
                const Kernel::At at = kernel_(square[lane]);
                weight.value[lane] = at.value;
                weight.slope[lane] = at.slope;
            }
            return weight;
        });
    }

    bool is_valid(const Columns&) const { return true; }

  private:
    Kernel kernel_;
};

}  // namespace unclump::codes
