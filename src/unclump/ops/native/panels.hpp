// Tables of points laid out for products by tiles, moved to their centre, where a table in a narrow cone keeps its
// digits.
#pragma once

#include "team.hpp"
#include "tile.hpp"

// The mean of the rows with finite norms, but for rows of zeros, as masked ones are; and the mean squared distance to
// it. Some hundred rows, for any point near the middle will do: at multiples of the golden section, which meet no
// pattern of the table.
template <class T>
class Centre {
  public:
    Centre(const T* x, Index n, Index d) : point_(d) {
        constexpr Index most = 1024;
        const Index tried = std::min(n, most);
        const T* rows[most];
        Index count = 0;
        std::fill(point_.get(), point_.get() + d, T(0));
        for (Index i = 0; i < tried; ++i) {
            const auto part = static_cast<std::uint32_t>(i) * 0x9E3779B9u;  // of the table, in units of 2^-32
            const T* row = x + (n <= most ? i : static_cast<Index>(part * static_cast<std::uint64_t>(n) >> 32)) * d;
            const T square = dot(row, row, d);
            if (!(square > 0 && square < infinity<T>)) continue;
            for (Index j = 0; j < d; ++j) point_[j] += row[j];
            rows[count++] = row;
        }
        for (Index j = 0; j < d && count > 0; ++j) point_[j] /= static_cast<T>(count);
        for (Index i = 0; i < count; ++i) {
            spread_ += squared_chord(rows[i], point_.get(), d) / static_cast<T>(count);
        }
    }
    const T* point() const { return point_.get(); }
    T spread() const { return spread_; }

  private:
    Buffer<T> point_;
    T spread_ = 0;
};

// The way out for points that coincide: along the axis most nearly orthogonal to the point among the first eight, by a
// vector whose tangent part has length one; the other part goes where gradients are projected.
struct Aside {
    Index axis = 0;
    double length;

    template <class T>
    Aside(const T* x, Index d) {
        for (Index j = 1; j < std::min<Index>(d, 8); ++j) axis = std::fabs(x[j]) < std::fabs(x[axis]) ? j : axis;
        length = 1 / std::sqrt(1 - static_cast<double>(x[axis]) * static_cast<double>(x[axis]));
    }
};

// Points in the lanes: entry k of a panel's points comes as one vector or two. What is left of the last panel is zero.
template <class T>
struct Panels {
    static constexpr int width = tile_width<T>;

    Panels(const T* x, Index n, Index d, const Centre<T>& centre, Index threads)
        : n(n), d(d), count((n + width - 1) / width), entries(count * width * d), squares(count * width) {
        for_each_panel(threads, [&](Index panel, Index filled) {
            for (Index first = 0; first < width; first += lanes<T>) {
                put(x, centre.point(), panel * width + first, std::min<Index>(filled - first, lanes<T>));
            }
        });
    }

    // Calls body(panel, filled) with the number of a panel's points.
    template <class Body>
    void for_each_panel(Index threads, const Body& body) const {
        in_parallel(count, threads, [&](Index start, Index stop) {
            for (Index panel = start; panel < stop; ++panel) body(panel, std::min<Index>(width, n - panel * width));
        });
    }

    const T* panel(Index number) const { return entries.get() + number * width * d; }

    bool are_finite() const {
        T total[1];
        reduce<T, 1>(count * width, total, [this](const auto& at, auto& sums) { sums[0] += at(squares.get()); });
        return total[0] < infinity<T>;
    }

    Index n, d, count;
    Buffer<T> entries, squares;  // and the squared norms

  private:
    // The lanes of a vector, from the point `first` on, of which `filled` are there: by squares, then what is left.
    void put(const T* x, const T* centre, Index first, Index filled) {
        T* const to = entries.get() + first / width * width * d + first % width;
        const Index whole = filled == lanes<T> ? d / lanes<T> * lanes<T> : 0;
        for (Index k = 0; k < whole; k += lanes<T>) {
            Vector<T> square[lanes<T>];
            for (int i = 0; i < lanes<T>; ++i) square[i] = load(x + (first + i) * d + k) - load(centre + k);
            transpose<T>(square);
            for (int i = 0; i < lanes<T>; ++i) store<T>(to + (k + i) * width, square[i]);
        }
        for (Index lane = 0; lane < lanes<T>; ++lane) {
            const T* const row = x + (first + lane) * d;
            squares[first + lane] = lane < filled ? squared_chord(row, centre, d) : T(0);
            for (Index k = whole; k < d; ++k) to[k * width + lane] = lane < filled ? row[k] - centre[k] : T(0);
        }
    }
};

// Coordinates in the lanes: some of a point's come as one vector or two, those of the next point follow. What is left
// of the last ones is zero.
template <class T>
struct Slices {
    static constexpr int width = tile_width<T>;

    Slices(const Panels<T>& panels, const T* x, const Centre<T>& centre, Index threads)
        : rows(panels.count * width), count((panels.d + width - 1) / width), entries(count * rows * width) {
        in_parallel(rows, threads, [&, d = panels.d](Index start, Index stop) {
            for (Index row = start; row < stop; ++row) {
                for (Index slice = 0; slice < count; ++slice) {
                    T* const __restrict to = entries.get() + (slice * rows + row) * width;
                    const T *from = x + row * d + slice * width, *middle = centre.point() + slice * width;
                    const Index filled = row < panels.n ? std::min<Index>(width, d - slice * width) : 0;
                    for (Index k = 0; k < filled; ++k) to[k] = from[k] - middle[k];
                    std::fill(to + filled, to + width, T(0));
                }
            }
        });
    }

    const T* at(Index slice, Index row) const { return entries.get() + (slice * rows + row) * width; }

    Index rows, count;
    Buffer<T> entries;
};
