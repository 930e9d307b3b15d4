// The nearest of every point: products select, differences measure.
//
// With c the centred points, those nearest to c_i have the largest scores <c_i, c_j> - |c_j|^2 / 2. One pass over tiles
// of products keeps for every point the few panels with the largest scores, without their lanes: k panels have the k
// largest, but for rounding. Of those the scores are then taken again, and what is within rounding of the k largest is
// measured by differences of coordinates. One table meets itself, and every product serves both of its points.
#pragma once

#include <memory>

#include "panels.hpp"

// For every point the best panels so far, by their largest scores; of equal ones the first.
template <class T>
class BestPanels {
  public:
    BestPanels(Index points, Index levels)
        : levels(levels), stride_(points), scores_(points * levels), panels_(points * levels) {
        std::fill(scores_.get(), scores_.get() + points * levels, -infinity<T>);
        std::fill(panels_.get(), panels_.get() + points * levels, 0);
    }

    // The scores that a panel has for the points of one, from the number `first` on.
    void offer(Index first, const T* scores, Index panel) {
        for (Index point = first; point < first + tile_width<T>; point += lanes<T>) {
            Vector<T> score = load(scores + point - first);
            Vector<Integer<T>> number = fill(static_cast<Integer<T>>(panel));
            for (Index level = 0; level < levels; ++level) {
                T* const score_place = scores_.get() + level * stride_ + point;
                Integer<T>* const number_place = panels_.get() + level * stride_ + point;
                const Vector<T> old_score = load(score_place);
                const Vector<Integer<T>> old_number = load(number_place);
                const auto better = (score > old_score) | ((score == old_score) & (number < old_number));
                store(score_place, better ? score : old_score);
                store(number_place, better ? number : old_number);
                score = better ? old_score : score;
                number = better ? old_number : number;
            }
        }
    }

    T score(Index point, Index level) const { return scores_[level * stride_ + point]; }
    Index panel(Index point, Index level) const { return panels_[level * stride_ + point]; }

    const Index levels;

  private:
    Index stride_;
    Buffer<T> scores_;
    Buffer<Integer<T>> panels_;
};

template <class T>
class NearestSearch {
  public:
    // Of points x in the table y, where null is x itself; of its rows only those that a mask, unless null, has.
    NearestSearch(const T* x, Index n, const T* y, Index m, Index d, const bool* mask, Index itself, Index threads)
        : x_(x),
          y_(y == nullptr ? x : y),
          itself_(itself),
          threads_(threads),
          centre_(y_, m, d),
          table_(y_, m, d, centre_, threads),
          others_(y == nullptr && itself == 0 ? nullptr : new Panels<T>(x, n, d, centre_, threads)),
          points_(others_ ? *others_ : table_),
          halves_(table_.count * width) {
        for (Index j = 0; j < table_.count * width; ++j) {
            const bool counts = j < m && (mask == nullptr || mask[j]);
            halves_[j] = counts ? table_.squares[j] / 2 : infinity<T>;
            has_nan_ |= counts && !(table_.squares[j] < infinity<T>);
        }
    }

    // Row numbers of the k nearest, the nearest first, and squared chords; number 0, infinitely far, if there are
    // fewer. If a row that counts is not finite, the numbers are those of the others, and all squared chords are NaN.
    void find(Index k, Index* index, T* r2) {
        BestPanels<T> best(points_.count * width, std::min(k + 1, table_.count));
        if (others_) {
            in_parallel(points_.count, threads_, [&](Index start, Index stop) {
                for (Index panel = start; panel < stop; ++panel) {
                    for (Index other_panel = 0; other_panel < table_.count; ++other_panel)
                        meet<false>(panel, other_panel, best);
                }
            });
        } else {
            PairsOfPieces(table_.count, threads_)
                .for_each_pair([&](Index, Index start, Index stop, Index other, Index end) {
                    for (Index panel = start; panel < stop; ++panel) {
                        if (start == other) meet<false>(panel, panel, best);
                        for (Index other_panel = std::max(other, panel + 1); other_panel < end; ++other_panel)
                            meet<true>(panel, other_panel, best);
                    }
                });
        }
        in_parallel(points_.n, threads_, [&](Index start, Index stop) {
            for (Index i = start; i < stop; ++i) measure(i, k, best, index + i * k, r2 + i * k);
            if (has_nan_) std::fill(r2 + start * k, r2 + stop * k, std::numeric_limits<T>::quiet_NaN());
        });
    }

  private:
    static constexpr int width = tile_width<T>;

    // Offers the scores of the table's panel `other_panel` to the points of another; and the other way round.
    template <bool both>
    void meet(Index panel, Index other_panel, BestPanels<T>& best) const {
        Vector<T> own_half[2], scores[2] = {fill(-infinity<T>), fill(-infinity<T>)};
        T table_scores[width];
        const Vector<Integer<T>> numbers[2] = {numbers_from<T>(0), numbers_from<T>(lanes<T>)};
        for (int part = 0; part < 2 && both; ++part)
            own_half[part] = load(halves_.get() + panel * width + part * lanes<T>);
        const Index first =
            (other_panel - panel) * width - itself_;  // the lane of the point that the first row there is
        const bool meets_itself = !both && first > -width && first < width;
        for (Index start = 0; start < width; start += tile_rows) {
            tile<tile_rows, 2, T>(
                table_.panel(other_panel) + start, 1, width, points_.panel(panel), width, table_.d, [&](auto& sums) {
#pragma GCC unroll 8
                    for (int row = 0; row < tile_rows; ++row) {
                        const T half = halves_[other_panel * width + start + row];
                        Vector<T> most = fill(-infinity<T>);
#pragma GCC unroll 2
                        for (int part = 0; part < 2; ++part) {
                            if (meets_itself) {
                                const auto own = numbers[part] == static_cast<Integer<T>>(first + start + row);
                                sums[row][part] = own ? fill(-infinity<T>) : sums[row][part];
                            }
                            scores[part] = larger(sums[row][part] - half, scores[part]);
                            if (both) most = larger(sums[row][part] - own_half[part], most);
                        }
                        if (both) table_scores[start + row] = largest<T>(most);
                    }
                });
        }
        best.offer(panel * width, reinterpret_cast<const T*>(scores), other_panel);
        if (both) best.offer(other_panel * width, table_scores, panel);
    }

    // The products of a point with all of a panel: four sums each, since one waits for itself.
    void products(Index i, Index panel, T* results) const {
        const T* __restrict own = points_.panel(i / width) + i % width;
        const T* __restrict columns = table_.panel(panel);
        Vector<T> sums[4][2] = {};
        Index k = 0;
        for (; k + 4 <= table_.d; k += 4) {
#pragma GCC unroll 4
            for (int turn = 0; turn < 4; ++turn) {
                for (int part = 0; part < 2; ++part) {
                    sums[turn][part] += own[(k + turn) * width] * load(columns + (k + turn) * width + part * lanes<T>);
                }
            }
        }
        for (; k < table_.d; ++k) {
            for (int part = 0; part < 2; ++part)
                sums[0][part] += own[k * width] * load(columns + k * width + part * lanes<T>);
        }
        for (int part = 0; part < 2; ++part) {
            store<T>(results + part * lanes<T>, (sums[0][part] + sums[1][part]) + (sums[2][part] + sums[3][part]));
        }
    }

    void measure(Index i, Index k, const BestPanels<T>& best, Index* index, T* r2) const {
        const Index d = table_.d;
        const T square = points_.squares[i];
        std::fill(index, index + k, 0);
        std::fill(r2, r2 + k, square < infinity<T> ? infinity<T> : square - square);  // of NaN, NaN
        const T rounding = 32 * std::numeric_limits<T>::epsilon() * (square + centre_.spread());
        const T least = k <= best.levels ? best.score(i, k - 1) - rounding : -infinity<T>;
        T scores[width];
        for (Index level = 0; level < best.levels; ++level) {
            if (!(best.score(i, level) >= least) || best.score(i, level) == -infinity<T>) break;
            const Index first = best.panel(i, level) * width;
            products(i, best.panel(i, level), scores);
            for (Index part = 0; part < width; part += lanes<T>) {
                const Vector<T> score = load(scores + part) - load(halves_.get() + first + part);
                for_each_lane<Integer<T>>(score >= least, [&](Index lane) {
                    const Index j = first + part + lane;
                    if (halves_[j] == infinity<T> || j == i + itself_) return;
                    keep(squared_chord(x_ + i * d, y_ + j * d, d), j, k, index, r2);
                });
            }
        }
    }

    // Into the list of the k nearest: of several that are equally near the first.
    static void keep(T chord, Index j, Index k, Index* index, T* r2) {
        for (Index place = 0; place < k; ++place) {
            if (chord < r2[place] || (chord == r2[place] && j < index[place])) {
                std::swap(chord, r2[place]);
                std::swap(j, index[place]);
            }
        }
    }

    const T *x_, *y_;
    Index itself_, threads_;
    Centre<T> centre_;
    Panels<T> table_;
    std::unique_ptr<Panels<T>> others_;  // where the points are not the table
    const Panels<T>& points_;
    Buffer<T> halves_;      // of the table's squared norms; infinity for rows that do not count
    bool has_nan_ = false;  // or infinity, in a row that counts
};
