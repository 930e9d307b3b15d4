// Sums of a kernel over pairs of points, and the forces between them, from the same pass over blocks of products.
//
// Far pairs have their squared chord from a product of centred points, and their force on point i is the slope k' times
// c_i - c_j. Near pairs, where rounding would show, and for geodesic kernels near antipodes, are measured by
// differences or sums of coordinates. A table that meets itself has every pair once: its block gives the forces on rows
// and columns.
#pragma once

#include <memory>

#include "kernel.hpp"
#include "panels.hpp"

// Weights of the points: with `left` u and `right` v, the sum of point i is that of v_j k_ij, and the force between i
// and j counts u_i v_j + v_i u_j times. Null are ones everywhere, counted once.
template <class T>
struct Weights {
    const T *left = nullptr, *right = nullptr;
};

template <class T>
struct Table {
    const T* x;
    Index n;
    Weights<T> weights;
};

template <class T>
class KernelSum {
  public:
    // Of points among others; or, where these are null, among themselves.
    KernelSum(const Kernel& kernel, const Table<T>& points, const Table<T>* others, Index d, Index itself,
              bool needs_forces, Index threads)
        : kernel_(kernel),
          points_(points),
          others_(others == nullptr ? points : *others),
          symmetric_(others == nullptr),
          needs_forces_(needs_forces),
          d_(d),
          itself_(itself),
          threads_(threads),
          centre_(others_.x, others_.n, d),
          columns_(others_.x, others_.n, d, centre_, threads),
          own_rows_(symmetric_ ? nullptr : new Panels<T>(points.x, points.n, d, centre_, threads)),
          rows_(symmetric_ ? columns_ : *own_rows_),
          others_left_(others_.weights.left == nullptr ? 0 : columns_.count * width),
          others_right_(others_.weights.left == nullptr ? 0 : columns_.count * width),
          column_slices_(needs_forces ? new Slices<T>(columns_, others_.x, centre_, threads) : nullptr),
          sums(points.n),
          slopes(points.n),
          stride_((d + width - 1) / width * width),
          forces_(needs_forces ? points.n * stride_ : 0) {
        // The rounding of products shows in the value of a smooth kernel nowhere; in its force, where points coincide.
        constexpr T rounding = std::numeric_limits<T>::epsilon();
        const bool smooth = kernel.form == Form::gaussian && kernel.metric == Metric::chordal;
        const T near = sizeof(T) == 4 ? T(0.1) : T(0.01);
        near_ = smooth ? 128 * rounding : near;
        high_ = kernel.metric == Metric::geodesic ? 4 - near : infinity<T>;
        are_finite_ = columns_.are_finite() && rows_.are_finite();
        std::fill(sums.get(), sums.get() + points.n, 0.0);
        std::fill(slopes.get(), slopes.get() + points.n, 0.0);
        if (needs_forces) std::fill(forces_.get(), forces_.get() + points.n * stride_, T(0));
        const Weights<T> weights = others_.weights;
        others_.weights = {padded(weights.left, others_left_), padded(weights.right, others_right_)};
        with_kernel(kernel, [&](auto known) { evaluate_ = &KernelSum::template evaluate<decltype(known)>; });
        add_all();
    }

    // The force on a point, up to a part that is normal to the sphere.
    void force(Index i, T* __restrict result) const {
        // The far part is slopes[i] c_i less what was summed. Of c_i = x_i - m only the tangent part counts, as of -m:
        // the smaller of both has the more digits.
        const T *x = points_.x + i * d_, *centre = centre_.point();
        const T share = centre_.spread() < T(0.5) ? T(1) : T(0);
        T radial[1];
        reduce<T, 1>(d_, radial,
                     [=](const auto& at, auto& total) { total[0] += at(x) * (share * at(x) - at(centre)); });
        const T slope = static_cast<T>(slopes[i]), *summed = forces_.get() + i * stride_;
        for (Index k = 0; k < d_; ++k) {
            result[k] = slope * ((share * x[k] - centre[k]) - radial[0] * x[k]) + summed[k];
        }
    }

  private:
    static constexpr int width = tile_width<T>;
    static constexpr Index block = 4 * width;          // points on each side of a block
    static constexpr Index block_stride = block + 16;  // a power of two would fall into few sets of the cache

    struct Block {
        Index row, rows, column, columns;
        bool diagonal;  // pairs are below it
        T *entries, *column_sums, *column_slopes;
        bool are_far[block / tile_rows] = {};  // of so many rows: all squared chords, but for tiles on the diagonal
    };

    // A copy that vectors may be read from at any row.
    const T* padded(const T* weights, Buffer<T>& copy) const {
        if (weights == nullptr) return nullptr;
        std::fill(std::copy(weights, weights + others_.n, copy.get()), copy.get() + columns_.count * width, T(0));
        return copy.get();
    }

    void add_all() {
        const auto scratch_of = [](const Buffer<T>& scratch, Index slot) {
            return scratch.get() + slot * block_stride * (block + 2);
        };
        if (symmetric_) {
            const PairsOfPieces pairs(columns_.count, threads_);
            const Buffer<T> scratch(pairs.slots() * block_stride * (block + 2));
            pairs.for_each_pair([&](Index slot, Index start, Index stop, Index other, Index end) {
                T* memory = scratch_of(scratch, slot);
                for (Index column = start * width; column < stop * width; column += block) {
                    for (Index row = start == other ? column : other * width; row < end * width; row += block) {
                        add_block(row, end * width, column, stop * width, memory);
                    }
                }
            });
            return;
        }
        const Buffer<T> scratch(threads_ * block_stride * (block + 2));
        for_each(threads_, threads_, [&](Index slot) {
            const Index start = rows_.count * slot / threads_ * width,
                        stop = rows_.count * (slot + 1) / threads_ * width;
            for (Index row = start; row < stop; row += block) {
                for (Index column = 0; column < others_.n; column += block) {
                    add_block(row, stop, column, others_.n, scratch_of(scratch, slot));
                }
            }
        });
    }

    void add_block(Index row, Index row_stop, Index column, Index column_stop, T* memory) {
        const Index rows = std::min({block, row_stop - row, points_.n - row});
        const Index columns = std::min({block, column_stop - column, others_.n - column});
        if (rows <= 0 || columns <= 0) return;
        Block here{row,
                   rows,
                   column,
                   columns,
                   symmetric_ && row == column,
                   memory + 2 * block_stride,
                   memory,
                   memory + block_stride};
        multiply(here);
        std::fill(here.column_sums, here.column_sums + block_stride, T(0));
        std::fill(here.column_slopes, here.column_slopes + block_stride, T(0));
        (this->*evaluate_)(here);
        for (Index i = 0; i < columns && symmetric_; ++i) {
            sums[column + i] += static_cast<double>(here.column_sums[i]);
            slopes[column + i] += static_cast<double>(here.column_slopes[i]);
        }
        if (!needs_forces_) return;
        add_forces(here.rows, row, [&](Index j, Index slice, const auto& use, auto parts) {
            const Index depth = here.diagonal ? std::min(columns, j + tile_rows - 1) : columns;
            tile<tile_rows, decltype(parts)::value, T>(here.entries + j * block_stride, block_stride, 1,
                                                       column_slices_->at(slice, column), width, depth, use);
        });
        if (!symmetric_) return;
        add_forces(here.columns, column, [&](Index i, Index slice, const auto& use, auto parts) {
            const Index first = here.diagonal ? i : 0;
            tile<tile_rows, decltype(parts)::value, T>(here.entries + first * block_stride + i, 1, block_stride,
                                                       column_slices_->at(slice, row + first), width, rows - first,
                                                       use);
        });
    }

    // The squared chords of all pairs.
    void multiply(Block& here) const {
        for (Index start = 0; start < here.rows; start += tile_rows) {
            const Index row = here.row + start;
            const T* own = rows_.panel(row / width) + row % width;
            Vector<T> least = fill(infinity<T>), most = fill(-infinity<T>);
            for (Index column = 0; column < here.columns; column += width) {
                if (here.diagonal && column >= start + tile_rows) break;
                const bool all_pairs = !here.diagonal || column + width <= start;
                const T* other = columns_.panel((here.column + column) / width);
                tile<tile_rows, 2, T>(own, 1, width, other, width, d_, [&](auto& sums) {
#pragma GCC unroll 2
                    for (int part = 0; part < 2; ++part) {
                        const Vector<T> squares = load(columns_.squares.get() + here.column + column + part * lanes<T>);
#pragma GCC unroll 8
                        for (int i = 0; i < tile_rows; ++i) {
                            const Vector<T> r2 = (rows_.squares[row + i] + squares) - 2 * sums[i][part];
                            sums[i][part] = r2;
                            if (!all_pairs) continue;
                            least = r2 < least ? r2 : least;
                            most = larger(r2, most);
                        }
                    }
                    store_tile<tile_rows, 2, T>(sums, here.entries + start * block_stride + column, block_stride);
                });
            }
            here.are_far[start / tile_rows] = are_finite_ && -largest<T>(-least) > near_ && largest<T>(most) < high_;
        }
    }

    template <class K>
    void evaluate(const Block& here) {
        for (Index j = 0; j < here.rows; ++j) evaluate_row<K>(here, j);
    }

    // Slopes for the squared chords of a row, weighted, and zero where there is no pair; the sums over it.
    template <class K>
    void evaluate_row(const Block& here, Index j) {
        const Index row = here.row + j, beyond = itself_ + row - here.column;
        const Index limit = here.diagonal ? j : here.columns;
        const Index reach = here.diagonal ? std::min(here.columns, (j / tile_rows + 1) * tile_rows) : here.columns;
        const bool meets_itself = !symmetric_ && beyond >= 0 && beyond < here.columns;
        const bool weighted = others_.weights.right != nullptr;
        const T square = rows_.squares[row], left = weighted ? points_.weights.left[row] : T(1);
        const T right = weighted ? points_.weights.right[row] : T(1);
        T* __restrict entries = here.entries + j * block_stride;
        const auto lane_numbers = numbers_from<T>(0);
        const Vector<T> none = {}, one = fill(T(1)), unknown = fill(infinity<T>), largest_near = fill(near_);
        Vector<T> sum_of_values = {}, sum_of_slopes = {}, far_pairs = {};
        const auto add = [&](Index i, Vector<T> value, Vector<T>& slope) {
            if (symmetric_) store<T>(here.column_sums + i, load(here.column_sums + i) + right * value);
            if (weighted) {
                const Vector<T> others_right = load(others_.weights.right + here.column + i);
                slope *= left * others_right + right * load(others_.weights.left + here.column + i);
                value *= others_right;
            }
            sum_of_values += value;
            sum_of_slopes += slope;
            if (symmetric_) store<T>(here.column_slopes + i, load(here.column_slopes + i) + slope);
        };
        Index i = 0;
        if (here.are_far[j / tile_rows] && !meets_itself) {  // almost always: there is nothing to choose
            const Index whole = here.diagonal ? j / tile_rows * tile_rows / width * width : limit / lanes<T> * lanes<T>;
            for (; i < whole; i += lanes<T>) {
                Vector<T> value, slope;
                K::at(kernel_, load(entries + i), value, slope);
                add(i, value, slope);
                store<T>(entries + i, slope);
            }
        }
        const Index first_unknown = i;
        for (; i < reach; i += lanes<T>) {
            const Vector<T> r2 = load(entries + i),
                            near = near_ / 2 * (square + load(columns_.squares.get() + here.column + i));
            auto far = (r2 > (near < largest_near ? near : largest_near)) & (r2 < high_);
            Vector<T> otherwise = unknown;
            if (i + lanes<T> > limit || meets_itself) {
                auto pair = lane_numbers < static_cast<Integer<T>>(limit - i);
                if (meets_itself) pair &= lane_numbers != static_cast<Integer<T>>(beyond - i);
                far &= pair;
                otherwise = pair ? unknown : none;
            }
            Vector<T> value, slope;
            const Vector<T> counts = far ? one : none;  // a product costs less than another choice
            K::at(kernel_, Vector<T>(far ? r2 : fill(T(2))), value, slope);
            far_pairs += counts;
            value *= counts;
            slope *= counts;
            add(i, value, slope);
            store<T>(entries + i, far ? slope : otherwise);
        }
        sums[row] += static_cast<double>(sum<T>(sum_of_values));
        slopes[row] += static_cast<double>(sum<T>(sum_of_slopes));
        const Index pairs = limit - first_unknown - (meets_itself ? 1 : 0);
        if (sum<T>(far_pairs) == static_cast<T>(pairs)) return;
        for (i = first_unknown; i < limit; ++i) {
            if (entries[i] != infinity<T>) continue;
            entries[i] = 0;
            add_near<K>(row, here.column + i);
        }
    }

    // A pair measured by itself. Points that coincide are taken to be apart, and pushed aside by different amounts.
    template <class K>
    void add_near(Index row, Index column) {
        const T *x = points_.x + row * d_, *y = others_.x + column * d_;
        constexpr double rounding = std::numeric_limits<T>::epsilon();
        static const double largest_slope = std::pow(static_cast<double>(std::numeric_limits<T>::max()), 0.9);
        double r2 = static_cast<double>(squared_chord(x, y, d_));
        const bool coincide = r2 <= rounding * rounding, opposite = r2 > 2;
        if (coincide) r2 = rounding;
        if (opposite) r2 = 4 - static_cast<double>(squared_sum(x, y, d_));
        double value, slope;
        K::at(kernel_, std::min(r2, 4 - rounding * rounding), value, slope);
        slope = slope < -largest_slope ? -largest_slope : slope > largest_slope ? largest_slope : slope;
        double counts = 1, by_row = 1, by_column = 1;
        if (others_.weights.right != nullptr) {
            by_row = static_cast<double>(others_.weights.right[column]);
            by_column = static_cast<double>(points_.weights.right[row]);
            counts = static_cast<double>(points_.weights.left[row]) * by_row +
                     by_column * static_cast<double>(others_.weights.left[column]);
        }
        sums[row] += by_row * value;
        if (symmetric_) sums[column] += by_column * value;
        if (!needs_forces_) return;
        // Towards an antipode the same force, without its part that is normal to the sphere, has small numbers.
        const T weight = static_cast<T>(counts * slope), side = opposite ? T(-1) : T(1);
        T* __restrict own = forces_.get() + row * stride_;
        for (Index k = 0; k < d_; ++k) own[k] += weight * (side * x[k] - y[k]);
        if (symmetric_) {
            T* __restrict other = forces_.get() + column * stride_;
            for (Index k = 0; k < d_; ++k) other[k] -= weight * (x[k] - side * y[k]);
        }
        if (!coincide) return;
        const Aside aside(x, d_);
        const auto ahead = static_cast<double>(itself_ + row - column);
        const double push = ahead / (1 + std::fabs(ahead));
        const T by = weight * static_cast<T>(std::sqrt(rounding) * push * aside.length);
        own[aside.axis] += by;
        if (symmetric_) forces_[column * stride_ + aside.axis] -= by;
    }

    // Subtracts what `multiply(row, slice, use, parts)` finds from the forces on rows, by tiles.
    template <class Multiply>
    void add_forces(Index count, Index first, const Multiply& multiply) {
        for (Index slice = 0; slice < column_slices_->count; ++slice) {
            const bool half = d_ - slice * width <= lanes<T>;
            for (Index start = 0; start < count; start += tile_rows) {
                const Index rows = std::min<Index>(tile_rows, count - start);
                T* const to = forces_.get() + (first + start) * stride_ + slice * width;
                const auto subtract = [&](const auto& sums) {
                    constexpr int parts = sizeof(sums[0]) / sizeof(Vector<T>);
                    for (Index row = 0; row < rows; ++row) {
                        for (int part = 0; part < parts; ++part) {
                            T* const target = to + row * stride_ + part * lanes<T>;
                            store<T>(target, load(target) - sums[row][part]);
                        }
                    }
                };
                if (half) {
                    multiply(start, slice, subtract, std::integral_constant<int, 1>());
                } else {
                    multiply(start, slice, subtract, std::integral_constant<int, 2>());
                }
            }
        }
    }

    Kernel kernel_;
    Table<T> points_, others_;
    bool symmetric_, needs_forces_;
    Index d_, itself_, threads_;
    Centre<T> centre_;
    Panels<T> columns_;
    std::unique_ptr<Panels<T>> own_rows_;  // where the points are not the table
    const Panels<T>& rows_;
    Buffer<T> others_left_, others_right_;
    std::unique_ptr<Slices<T>> column_slices_;
    void (KernelSum::*evaluate_)(const Block&);
    // Far pairs have squared chords above `near_` times the mean of both points' squared norms, which bounds the
    // rounding of products, or of one if that is less; and below `high_`.
    T near_, high_;
    bool are_finite_;  // all points: comparisons do not see NaN

  public:
    Buffer<double> sums, slopes;  // of every point, over the others

  private:
    Index stride_;
    Buffer<T> forces_;
};
