// Skyline Cholesky: rows of a symmetric matrix are stored from their first nonzero, which also bounds the fill-in.
//
// Points sorted along an axis are close to their neighbours in this order, so that a row of the normal equations of a
// thousand points on the sphere in 3-D starts shortly before its diagonal. Eight rows have a common start and are
// stored column by column, so that every operation is one on eight rows.
#pragma once

#include <cmath>
#include <vector>

#include "columns.hpp"

namespace unclump::codes {

class Skyline {
  public:
    // Lower triangle of zeros; row i is zero before column first[i]. The rows that complete the last block are e_i.
    explicit Skyline(const std::vector<Index>& first)
        : rows_((static_cast<Index>(first.size()) + kBlock - 1) / kBlock * kBlock),
          starts_(rows_ / kBlock),
          offsets_(rows_ / kBlock),
          pivots_(rows_),
          used_rows_(static_cast<Index>(first.size())),
          entries_(layout(first)) {}

    Index rows() const { return rows_; }

    double& operator()(Index i, Index j) { return column(i / kBlock, j)[i % kBlock]; }

    void clear() {
        std::fill_n(entries_.data(), size_, 0.0);
        for (Index i = used_rows_; i < rows_; ++i) (*this)(i, i) = 1;
    }

    // Replaces the matrix by its Cholesky factor; false, with invalid values, if it is not semidefinite.
    // A pivot below `threshold` times its diagonal entry is rounding error, as for a common rotation or a free point.
    bool factorise(double threshold) {
        for (Index i = 0; i < rows_ / kBlock; ++i) {
            double diagonal[kBlock];
            for (Index r = 0; r < kBlock; ++r) diagonal[r] = column(i, i * kBlock + r)[r];
            for (Index j = starts_[i] / kBlock; j < i; ++j) {
                subtract_products(i, j);
                for (Index c = 0; c < kBlock; ++c) finish_column(i, j, c, 1 / pivots_[j * kBlock + c]);
            }
            subtract_products(i, i);
            for (Index c = 0; c < kBlock; ++c) {
                double& pivot = pivots_[i * kBlock + c];
                finish_column(i, i, c, 1);
                const double value = column(i, i * kBlock + c)[c];
                if (value > threshold * diagonal[c])
                    pivot = std::sqrt(value);
                else if (value > -threshold * std::fmax(diagonal[c], 0))
                    pivot = kHuge;
                else
                    return false;
                double* const entries = column(i, i * kBlock + c);
                for (Index r = 0; r < kBlock; ++r) entries[r] /= pivot;
            }
        }
        return true;
    }

    // Replaces b, which has rows() entries, by the solution, from the Cholesky factor.
    void solve(double* b) const {
        for (Index i = 0; i < rows_ / kBlock; ++i) {
            double* const own = b + i * kBlock;
            for (Index k = starts_[i]; k < i * kBlock; ++k)
                for (Index r = 0; r < kBlock; ++r) own[r] -= column(i, k)[r] * b[k];
            for (Index c = 0; c < kBlock; ++c) {
                own[c] /= pivots_[i * kBlock + c];
                for (Index r = c + 1; r < kBlock; ++r) own[r] -= column(i, i * kBlock + c)[r] * own[c];
            }
        }
        for (Index i = rows_ / kBlock; i-- > 0;) {
            double* const own = b + i * kBlock;
            for (Index c = kBlock; c-- > 0;) {
                for (Index r = c + 1; r < kBlock; ++r) own[c] -= column(i, i * kBlock + c)[r] * own[r];
                own[c] /= pivots_[i * kBlock + c];
            }
            for (Index k = starts_[i]; k < i * kBlock; ++k) {
                Pack products{};
                for (Index p = 0; p < kBlock; p += kLanes) products += load(column(i, k) + p) * load(own + p);
                b[k] -= sum<double>(products);
            }
        }
    }

  private:
    static constexpr Index kBlock = 8;
    static constexpr double kHuge = 1e150;  // for a pivot that is only rounding error: its unknown becomes zero
    static constexpr Index kPacks = kBlock / kLanes;

    Index layout(const std::vector<Index>& first) {
        size_ = 0;
        for (Index i = 0; i < rows_ / kBlock; ++i) {
            Index start = i * kBlock;
            for (Index r = i * kBlock; r < std::min((i + 1) * kBlock, used_rows_); ++r)
                start = std::min(start, first[r]);
            starts_[i] = start / kBlock * kBlock;
            offsets_[i] = size_ - starts_[i] * kBlock;
            size_ += ((i + 1) * kBlock - starts_[i]) * kBlock;
        }
        return size_;
    }

    // The entries of eight rows in one column.
    double* column(Index block, Index j) { return entries_.data() + offsets_[block] + j * kBlock; }
    const double* column(Index block, Index j) const { return entries_.data() + offsets_[block] + j * kBlock; }

    // Subtracts the products of eight rows with eight others over the columns before the latter.
    void subtract_products(Index i, Index j) {
        const Index low = std::max(starts_[i], starts_[j]);
        for (Index c = 0; c < kBlock; c += kGroup) {
            Pack sums[kGroup][kPacks] = {};
            const double* left = column(i, low);
            const double* right = column(j, low) + c;
            for (Index k = low; k < j * kBlock; ++k, left += kBlock, right += kBlock)
                for (Index q = 0; q < kGroup; ++q)
                    for (Index p = 0; p < kPacks; ++p) sums[q][p] += right[q] * load(left + p * kLanes);
            for (Index q = 0; q < kGroup; ++q)
                for (Index p = 0; p < kPacks; ++p) {
                    double* const entries = column(i, j * kBlock + c + q) + p * kLanes;
                    store(entries, load(entries) - sums[q][p]);
                }
        }
    }
    static constexpr Index kGroup = kLanes == 8 ? 8 : 4;  // columns at a time: as many as registers hold

    // Subtracts the products over the columns of block j itself, before c, and scales.
    void finish_column(Index i, Index j, Index c, double scale) {
        double* const entries = column(i, j * kBlock + c);
        for (Index p = 0; p < kBlock; p += kLanes) {
            Pack value = load(entries + p);
            for (Index k = 0; k < c; ++k) value -= column(j, j * kBlock + k)[c] * load(column(i, j * kBlock + k) + p);
            store(entries + p, value * scale);
        }
    }

    Index rows_;
    std::vector<Index> starts_, offsets_;  // of every block; entry (i, j) is at offset + 8 j + i % 8
    std::vector<double> pivots_;
    Index used_rows_, size_;
    Numbers entries_;
};

}  // namespace unclump::codes
