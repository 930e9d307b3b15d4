// Codes with an exact symmetry: unions of orbits of a finite group of isometries, each given by a representative.
//
// The gradient of a symmetric function of all points is symmetric itself: it is needed at the representatives alone,
// against all images, which costs the number of points times the number of orbits.
#pragma once

#include <numeric>

#include "anneal.hpp"

namespace unclump::codes {

// The images of representative r are the matrices sizes[0] + ... + sizes[r - 1] and following, times it. The first of
// them is the projector onto the space where the representative may be, such as a mirror plane.
class Orbits {
  public:
    Orbits(const double* matrices, const Index* sizes, Index count, Index d)
        : sizes_(sizes, sizes + count), matrices_(std::accumulate(sizes, sizes + count, Index{0}), d * d) {
        for (Index r = 0; r < count; ++r) {
            first_.push_back(static_cast<Index>(owner_.size()));
            owner_.insert(owner_.end(), sizes[r], r);
        }
        for (Index j = 0; j < images(); ++j)
            for (Index k = 0; k < d * d; ++k) matrices_[k][j] = matrices[j * d * d + k];
    }

    Index images() const { return static_cast<Index>(owner_.size()); }
    Index first(Index r) const { return first_[r]; }
    double size(Index r) const { return static_cast<double>(sizes_[r]); }

    void expand(const Columns& u, Columns& x) const {
        for (Index a = 0; a < u.d; ++a)
            for (Index j = 0; j < images(); ++j) {
                double sum = 0;
                for (Index b = 0; b < u.d; ++b) sum += matrices_[a * u.d + b][j] * u[b][owner_[j]];
                x[a][j] = sum;
            }
    }

    // Takes vectors at the representatives to the spaces where these may be.
    void project(Columns& v) const {
        std::vector<double> old(v.d);
        for (Index r = 0; r < v.n; ++r) {
            for (Index a = 0; a < v.d; ++a) old[a] = v[a][r];
            for (Index a = 0; a < v.d; ++a) {
                v[a][r] = 0;
                for (Index b = 0; b < v.d; ++b) v[a][r] += matrices_[a * v.d + b][first_[r]] * old[b];
            }
        }
    }

    // Calls visit(r, j, cosines of representative r with images j, j + 1, ..., mask of those that are not itself).
    template <class Visit>
    void visit_cosines(const Columns& x, Visit visit) const {
        for (Index r = 0; r < static_cast<Index>(first_.size()); ++r)
            for (Index j = 0; j < x.n; j += kLanes) {
                Pack cosine{};
                for (Index k = 0; k < x.d; ++k) cosine += x[k][first_[r]] * load(x[k] + j);
                const Mask others = lanes_between(-1, j, first_[r]) | lanes_between(first_[r], j, x.n);
                visit(r, j, cosine, others);
            }
    }

  private:
    std::vector<Index> sizes_, owner_, first_;
    Columns matrices_;
};

// The soft maximum of the cosines of all images, as a function of the representatives.
class SoftMaximumOfOrbits : public SoftMaximum {
  public:
    SoftMaximumOfOrbits(double sharpness, double reference, const Orbits& orbits, Index d)
        : SoftMaximum(sharpness, reference), orbits_(orbits), images_(orbits.images(), d), sums_(d * kLanes) {}

    double operator()(const Columns& u, Columns& g) {
        orbits_.expand(u, images_);
        std::fill_n(g.data(), g.size(), 0.0);
        double total = 0;
        Index current = 0;
        Pack powers{};
        std::fill_n(sums_.data(), u.d * kLanes, 0.0);
        const auto finish_orbit = [&] {
            total += orbits_.size(current) / 2 * sum<double>(powers);
            for (Index k = 0; k < u.d; ++k)
                g[k][current] = orbits_.size(current) * sum<double>(load(sums_.data() + k * kLanes));
            std::fill_n(sums_.data(), u.d * kLanes, 0.0);
            powers = Pack{};
        };
        orbits_.visit_cosines(images_, [&](Index r, Index j, Pack cosine, Mask others) {
            if (r != current) {
                finish_orbit();
                current = r;
            }
            const Pack power = others ? exponential(sharpness_ * (cosine - reference_)) : Pack{};
            powers += power;
            for (Index k = 0; k < u.d; ++k) {
                double* const sum = sums_.data() + k * kLanes;
                store(sum, load(sum) + power * load(images_[k] + j));
            }
        });
        finish_orbit();
        orbits_.project(g);
        return finish(total, g);
    }

  private:
    const Orbits& orbits_;
    Columns images_;
    Numbers sums_;
};

// As `anneal`, of the representatives: replaces them, and returns the smallest squared chord of all images.
inline double anneal_orbits(Columns& u, const Orbits& orbits, const Schedule& schedule, double spacing, Stop stop) {
    Columns images(orbits.images(), u.d);
    const auto smallest_square = [&] {
        normalise(u);
        orbits.expand(u, images);
        Pack running = fill(-1.0);
        orbits.visit_cosines(images, [&](Index, Index, Pack cosine, Mask others) {
            running = larger(others ? cosine : fill(-1.0), running);
        });
        return 2 - 2 * largest<double>(running);
    };
    orbits.project(u);
    for (double p = schedule.softest; p <= schedule.sharpest && !stop; p *= 2) {
        const double square = std::fmax(smallest_square(), 0.4 * spacing * spacing);
        SoftMaximumOfOrbits objective(p / square, 1 - square / 2, orbits, u.d);
        minimise(u, objective, schedule.iterations, schedule.tolerance * square / p, std::sqrt(square), stop);
    }
    return smallest_square();
}

}  // namespace unclump::codes
