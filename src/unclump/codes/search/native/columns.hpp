// Points as columns: coordinate k of all points is contiguous, so that loops vectorise over points for any dimension.
#pragma once

#include <algorithm>
#include <vector>

#include "../../../ops/native/functions.hpp"

namespace unclump::codes {

using Pack = Vector<double>;
using Mask = Vector<std::int64_t>;
constexpr Index kLanes = lanes<double>;
constexpr Index kPadding = 8;  // columns are padded to a multiple, of which every number of lanes is a divisor

// Lanes at the positions first, first + 1, ... that are after `after` and before `before`.
inline Mask lanes_between(Index after, Index first, Index before) {
    const Mask position = numbers_from<double>(0) + first;
    return (position > after) & (position < before);
}

// Zero where the argument is zero: padding stays zero.
inline Pack reciprocal_or_zero(const Pack& pack) {
    return pack != 0 ? 1 / pack : Pack{};
}

// Zeroed doubles, aligned to cache lines.
class Numbers {
  public:
    explicit Numbers(Index size) : lines_((size + kPadding - 1) / kPadding) {}
    double* data() { return reinterpret_cast<double*>(lines_.data()); }
    const double* data() const { return reinterpret_cast<const double*>(lines_.data()); }
    double& operator[](Index i) { return data()[i]; }
    double operator[](Index i) const { return data()[i]; }

  private:
    struct alignas(kPadding * sizeof(double)) Line {
        double values[kPadding] = {};
    };
    std::vector<Line> lines_;
};

// Columns of points, or of anything else that has d numbers for each of n points. The padding is zero.
class Columns {
  public:
    Index n, d;

    Columns(Index n, Index d)
        // An odd number of lines: columns a power of two apart would compete for the same places in the cache.
        : n(n), d(d), stride_(((n + kPadding - 1) / kPadding | 1) * kPadding), buffer_(stride_ * d) {}

    Columns(const double* rows, Index n, Index d) : Columns(n, d) {
        for (Index i = 0; i < n; ++i)
            for (Index k = 0; k < d; ++k) (*this)[k][i] = rows[i * d + k];
    }

    void write_rows(double* rows) const {
        for (Index i = 0; i < n; ++i)
            for (Index k = 0; k < d; ++k) rows[i * d + k] = (*this)[k][i];
    }

    void copy_from(const Columns& other) { buffer_ = other.buffer_; }

    double* operator[](Index k) { return buffer_.data() + k * stride_; }
    const double* operator[](Index k) const { return buffer_.data() + k * stride_; }
    double* data() { return buffer_.data(); }
    const double* data() const { return buffer_.data(); }
    Index size() const { return stride_ * d; }  // with padding, a multiple of kPadding

  private:
    Index stride_;
    Numbers buffer_;
};

// Inner products of kLanes points of a with those of b.
inline Pack inner_products(const Columns& a, const Columns& b, Index first) {
    Pack products{};
    for (Index k = 0; k < a.d; ++k) products += load(a[k] + first) * load(b[k] + first);
    return products;
}

// The largest norm of a point.
inline double longest(const Columns& a) {
    Pack square{};
    for (Index i = 0; i < a.n; i += kLanes) square = larger(inner_products(a, a, i), square);
    return std::sqrt(largest<double>(square));
}

// Whether no entry is infinite or NaN, of which the difference to itself is NaN.
inline bool is_finite(const Columns& a) {
    Pack differences{};
    for (Index i = 0; i < a.size(); i += kLanes) differences += load(a.data() + i) - load(a.data() + i);
    return sum<double>(differences) == 0;
}

// Divides the points by their norms; zero stays zero.
inline void normalise(Columns& x) {
    for (Index i = 0; i < x.n; i += kLanes) {
        const Pack scale = reciprocal_or_zero(square_root(inner_products(x, x, i)));
        for (Index k = 0; k < x.d; ++k) store(x[k] + i, load(x[k] + i) * scale);
    }
}

inline double inner_product(const Columns& a, Index i, const Columns& b, Index j) {
    double sum = 0;
    for (Index k = 0; k < a.d; ++k) sum += a[k][i] * b[k][j];
    return sum;
}

// Of point i and point j times a sign.
inline double squared_chord(const Columns& x, Index i, Index j, double sign = 1) {
    double square = 0;
    for (Index k = 0; k < x.d; ++k) square += (x[k][i] - sign * x[k][j]) * (x[k][i] - sign * x[k][j]);
    return square;
}

}  // namespace unclump::codes
