// The squared chords of all pairs of points in double precision, without the matrix of them: counted in bins, or those
// in a range. A count does not depend on the order of pairs, nor do the chords of a range once they are sorted.
#include <atomic>

#include "panels.hpp"

namespace {

using Chords = Vector<double>;
using Mask = Vector<Integer<double>>;

bool any(const Mask& mask) {
    return fold_halves<Integer<double>, vector_bytes>(mask, [](const auto& a, const auto& b) { return a | b; }) != 0;
}

class PairChords {
  public:
    PairChords(const double* x, Index n, Index d, Index threads)
        : threads_(threads), centre_(x, n, d), points_(x, n, d, centre_, threads) {}

    // counts[0] are the pairs below `low`, counts[1 + k] those in bin k of as many of equal width. Widths are powers of
    // two, so that no value is rounded into another bin.
    void count(double low, double width, Index bins, Index* counts) const {
        const double scale = static_cast<double>(bins) / width;
        const Buffer<Index> inside(threads_ * bins);
        std::fill(inside.get(), inside.get() + threads_ * bins, 0);
        counts[0] = for_each_between(low, width, [&](Index thread, double chord) {
            ++inside[thread * bins + static_cast<Index>((chord - low) * scale)];
        });
        std::fill(counts + 1, counts + 1 + bins, 0);
        for (Index thread = 0; thread < threads_; ++thread) {
            for (Index k = 0; k < bins; ++k) counts[1 + k] += inside[thread * bins + k];
        }
    }

    // Those from `low` on over the width, in any order, as many as there is room for; counts[0] are the pairs below
    // `low`, counts[1] those in the range, or a number above `room`.
    void collect(double low, double width, double* chords, Index room, Index* counts) const {
        std::atomic<Index> filled{0};
        counts[0] = for_each_between(low, width, [&](Index, double chord) {
            if (filled.load(std::memory_order_relaxed) > room) return;  // too many already
            const Index place = filled.fetch_add(1, std::memory_order_relaxed);
            if (place < room) chords[place] = chord;
        });
        counts[1] = filled;
    }

  private:
    static constexpr int panel_width = tile_width<double>;
    static constexpr Index group = 8;  // panels that stay in the cache while the others pass by

    // Calls use(thread, chord) for the squared chords from `low` on over the width; returns how many are below `low`.
    template <class Use>
    Index for_each_between(double low, double width, const Use& use) const {
        const Buffer<Mask> below(threads_);
        std::fill(below.get(), below.get() + threads_, Mask{});
        for_each_chords([&](Index thread, const Chords& r2, const Mask& pairs) {
            below[thread] -= pairs & (r2 < low);  // true is minus one
            const Mask between = pairs & (r2 >= low) & (r2 - low < width);
            if (!any(between)) return;
            for (int lane = 0; lane < lanes<double>; ++lane) {
                if (between[lane]) use(thread, r2[lane]);
            }
        });
        Index total = 0;
        for (Index thread = 0; thread < threads_; ++thread) {
            for (int lane = 0; lane < lanes<double>; ++lane) total += below[thread][lane];
        }
        return total;
    }

    // Calls use(thread, chords, pairs) for vectors of squared chords, of which those count that are a pair.
    template <class Use>
    void for_each_chords(const Use& use) const {
        for_each(threads_, threads_, [&](Index thread) {
            for (Index first = thread * group; first < points_.count; first += threads_ * group) {
                for (Index column = first; column < points_.count; ++column) {
                    for (Index row = first; row <= std::min(column, first + group - 1); ++row) {
                        for (int start = 0; start < panel_width; start += tile_rows) {
                            multiply(row, start, column, [&](const auto&... chords) { use(thread, chords...); });
                        }
                    }
                }
            }
        });
    }

    template <class Use>
    void multiply(Index row_panel, int start, Index column_panel, const Use& use) const {
        const Index row = row_panel * panel_width + start, column = column_panel * panel_width;
        const bool all_pairs = row_panel < column_panel && column + panel_width <= points_.n;
        const double* const rows = points_.panel(row_panel) + start;
        tile<tile_rows, 2, double>(
            rows, 1, panel_width, points_.panel(column_panel), panel_width, points_.d, [&](const auto& sums) {
                for (int i = 0; i < tile_rows; ++i) {
                    for (int part = 0; part < 2; ++part) {
                        const Index first = column + part * lanes<double>;
                        Chords r2 = points_.squares[row + i] + load(points_.squares.get() + first) - 2 * sums[i][part];
                        r2 = larger(r2, Chords{});
                        r2 = r2 < 4 ? r2 : fill(4.0);
                        const Mask number = numbers_from<double>(first);
                        use(r2, all_pairs ? ~Mask{} : (number > row + i) & (number < points_.n));
                    }
                }
            });
    }

    Index threads_;
    Centre<double> centre_;
    Panels<double> points_;
};

}  // namespace

UNCLUMP_EXPORT int unclump_count_chords_double(const double* x, Index* counts, Index n, Index d, Index bins, double low,
                                               double width, Index threads) {
    return guarded([&] { PairChords(x, n, d, threads).count(low, width, bins, counts); });
}

UNCLUMP_EXPORT int unclump_collect_chords_double(const double* x, double* chords, Index* counts, Index n, Index d,
                                                 Index room, double low, double width, Index threads) {
    return guarded([&] { PairChords(x, n, d, threads).collect(low, width, chords, room, counts); });
}
