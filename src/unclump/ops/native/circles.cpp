// Distance to even spacing on great circles, with its gradient. Two passes over the table, and a sort for each circle:
// coordinates of all points on all circles; angles, ranks and what follows from them, circle by circle; the gradient.
#include <memory>
#include <vector>

#include "functions.hpp"
#include "project.hpp"
#include "ranks.hpp"
#include "tile.hpp"

namespace {

// Vectors laid out for tiles: entry k of as many as a tile is wide, then entry k + 1; zero where there are no more.
template <class T>
void pack(const T* vectors, Index count, Index d, T* packed) {
    constexpr Index width = tile_width<T>;
    for (Index panel = 0; panel * width < count; ++panel) {
        for (Index k = 0; k < d; ++k) {
            for (Index lane = 0; lane < width; ++lane) {
                const Index number = panel * width + lane;
                packed[(panel * d + k) * width + lane] = number < count ? vectors[number * d + k] : T(0);
            }
        }
    }
}

template <class T>
Index padded(Index count) {
    return (count + tile_width<T> - 1) / tile_width<T> * tile_width<T>;
}

// Products of rows of x, as many as a tile has, with all vectors; into columns of `products`, of which the first few
// count.
template <class T>
void multiply_rows(const T* x, Index d, const T* packed, Index count, T* products, Index stride, Index rows) {
    constexpr Index width = tile_width<T>;
    for (Index first = 0; first < count; first += width) {
        tile<tile_rows, 2, T>(x, d, 1, packed + first * d, width, d, [&](const auto& sums) {
            T block[tile_rows][width];
            for (int row = 0; row < tile_rows; ++row) {
                for (int part = 0; part < 2; ++part) store<T>(block[row] + part * lanes<T>, sums[row][part]);
            }
            for (Index lane = 0; lane < std::min(width, count - first); ++lane) {
                for (Index row = 0; row < rows; ++row) products[(first + lane) * stride + row] = block[row][lane];
            }
        });
    }
}

// The inner products of all points with all vectors, a row for each vector; and one over the norms, unless null.
template <class T>
void coordinates(const T* x, Index n, Index d, const T* vectors, Index count, T* products, T* inverse, Index threads) {
    if (count == 2) {  // one circle: too few vectors for tiles
        return in_parallel(n, threads, [=](Index start, Index stop) {
            for (Index i = start; i < stop; ++i) {
                const T *row = x + i * d, *p = vectors, *q = vectors + d;
                T totals[3];
                reduce<T, 3>(d, totals, [=](const auto& at, auto& total) {
                    const auto entry = at(row);
                    total[0] += entry * at(p);
                    total[1] += entry * at(q);
                    total[2] += entry * entry;
                });
                products[i] = totals[0];
                products[n + i] = totals[1];
                if (inverse != nullptr) inverse[i] = inverse_norm(row, d, totals[2]);
            }
        });
    }
    Buffer<T> packed(padded<T>(count) * d), last(tile_rows * d);
    pack(vectors, count, d, packed.get());
    const Index whole = n / tile_rows, rest = n - whole * tile_rows;
    std::fill(std::copy(x + whole * tile_rows * d, x + n * d, last.get()), last.get() + tile_rows * d, T(0));
    in_parallel(whole, threads, [&](Index start, Index stop) {
        for (Index i = start * tile_rows; i < stop * tile_rows; i += tile_rows) {
            multiply_rows(x + i * d, d, packed.get(), count, products + i, n, tile_rows);
            for (Index row = i; row < i + tile_rows && inverse != nullptr; ++row) {
                inverse[row] = inverse_norm(x + row * d, d);
            }
        }
    });
    multiply_rows(last.get(), d, packed.get(), count, products + whole * tile_rows, n, rest);
    for (Index row = n - rest; row < n && inverse != nullptr; ++row) inverse[row] = inverse_norm(x + row * d, d);
}

template <class T>
void coordinates_on_axes(const T* x, Index n, Index d, const Index* axes, Index count, T* products, T* inverse,
                         Index threads) {
    in_parallel(n, threads, [=](Index start, Index stop) {
        for (Index i = start; i < stop; ++i) {
            for (Index m = 0; m < count; ++m) products[m * n + i] = x[i * d + axes[m]];
            if (inverse != nullptr) inverse[i] = inverse_norm(x + i * d, d);
        }
    });
}

// The angles of points on a circle, in [-pi, pi].
template <class V, class T = EntryOf<V>>
V angle_of(const V& along, const V& across) {
    const V zero = {}, a = along < zero ? -along : along, b = across < zero ? -across : across;
    const auto steep = b > a;
    const V low = steep ? a : b, high = steep ? b : a;
    const V ratio = low / (high == zero ? T(1) + zero : high);
    V angle = ratio * polynomial(ratio * ratio, Coefficients<T>::arc_tangent);
    angle = steep ? T(1.57079632679489661923) - angle : angle;
    angle = along < zero ? T(3.14159265358979323846) - angle : angle;
    return across < zero ? -angle : angle;
}

// The sum in double of the vectors that `add(i)` gives for the entries from i on, in parts that single precision can
// hold; arrays are read up to a whole vector.
template <class T, class Add>
double sum_in_parts(Index n, Index threads, const Add& add) {
    constexpr Index length = 64 * lanes<T>;
    const Index parts = (n + length - 1) / length;
    const Buffer<double> sums(parts);
    for_each(parts, threads, [&](Index part) {
        Vector<T> here = {};
        for (Index i = part * length; i < std::min(n, (part + 1) * length); i += lanes<T>) here += add(i);
        sums[part] = static_cast<double>(sum<T>(here));
    });
    double total = 0;
    for (Index part = 0; part < parts; ++part) total += sums[part];
    return total;
}

// One circle: the sum of squared gaps to even spacing, and the gradient's coefficients for the coordinates. Nearer to
// the circle's axis than the precision the angle is not known, and the gradient stays bounded.
template <class T>
class Circle {
  public:
    Circle(Index n, Index threads)
        : n_(n), threads_(threads), angles_(padded<T>(n)), places_(padded<T>(n)), ranks_(n) {}

    // The coordinates become the coefficients, times `share`.
    double distance(T* along, T* across, const T* inverse, T share) {
        const double total = sum_in_parts<T>(n_, threads_, [&](Index i) {
            const Vector<T> angle = angle_of(load_rest(along, i), load_rest(across, i));
            store<T>(angles_.get() + i, angle);
            return angle;  // zero where there are no more points
        });
        const T mean = static_cast<T>(total / static_cast<double>(n_));
        const T step = static_cast<T>(3.14159265358979323846 / static_cast<double>(n_));
        ranks_.for_each(angles_.get(), [&](Index rank, Index number) {
            places_[number] = mean + static_cast<T>(2 * rank + 1 - n_) * step;
        });
        return sum_in_parts<T>(n_, threads_,
                               [&](Index i) { return put_coefficients(i, inverse, share, along, across); });
    }

  private:
    Vector<T> load_rest(const T* from, Index i) const {
        if (i + lanes<T> <= n_) return load(from + i);
        Vector<T> vector = {};
        for (Index lane = 0; i + lane < n_; ++lane) vector[lane] = from[i + lane];
        return vector;
    }

    // Returns the squared gaps. Compiled once: inlined into the loops of one thread and of several, their sum could be
    // rounded in two ways.
    __attribute__((noinline)) Vector<T> put_coefficients(Index i, const T* inverse, T share, T* along,
                                                         T* across) const {
        const Vector<T> gap = load_rest(angles_.get(), i) - load_rest(places_.get(), i);
        const Vector<T> least = fill(std::numeric_limits<T>::epsilon() * std::numeric_limits<T>::epsilon());
        const Vector<T> scale = load_rest(inverse, i), a = load_rest(along, i) * scale,
                        b = load_rest(across, i) * scale;
        const Vector<T> squared = a * a + b * b;
        const Vector<T> turn = share * gap * scale / (squared < least ? least : squared), to_p = -turn * b,
                        to_q = turn * a;
        const auto bytes = static_cast<std::size_t>(std::min<Index>(lanes<T>, n_ - i)) * sizeof(T);
        __builtin_memcpy(along + i, &to_p, bytes);
        __builtin_memcpy(across + i, &to_q, bytes);
        return gap * gap;
    }

    Index n_, threads_;
    Buffer<T> angles_, places_;  // the points', and those of even spacing
    Ranks<T> ranks_;
};

// Half the squared distance to even spacing, averaged over points and circles, times a factor; coordinates become
// coefficients. Each thread has as many circles as the others, and all of them work on each that is left.
template <class T>
double even_spacing(T* along, const T* inverse, Index n, Index circles, double factor, Index threads) {
    const Index each = circles / threads;
    Buffer<double> squares(circles);
    const double share = factor / (static_cast<double>(circles) * static_cast<double>(n));
    const auto measure = [&](Circle<T>& worker, Index circle) {
        T* const here = along + 2 * circle * n;
        squares[circle] = worker.distance(here, here + n, inverse, static_cast<T>(share));
    };
    if (each > 0) {
        std::vector<std::unique_ptr<Circle<T>>> workers;
        for (Index thread = 0; thread < threads; ++thread) workers.push_back(std::make_unique<Circle<T>>(n, 1));
        for_each(threads, threads, [&](Index thread) {
            for (Index k = 0; k < each; ++k) measure(*workers[thread], thread * each + k);
        });
    }
    if (each * threads < circles) {
        Circle<T> worker(n, threads);
        for (Index circle = each * threads; circle < circles; ++circle) measure(worker, circle);
    }
    double total = 0;
    for (Index circle = 0; circle < circles; ++circle) total += squares[circle];
    return total / 2 * share;
}

// The rows with these coefficients of the vectors, times a factor.
template <class T>
void combine(const T* coefficients, Index n, const T* vectors, Index count, Index d, T factor, T* x, Index threads) {
    constexpr Index width = tile_width<T>;
    const Index slices = (d + width - 1) / width, whole = n / tile_rows, rest = n - whole * tile_rows;
    Buffer<T> laid_out(slices * count * width), last(count * tile_rows);
    for (Index m = 0; m < count; ++m) {
        for (Index k = 0; k < slices * width; ++k) {
            laid_out[(k / width * count + m) * width + k % width] = k < d ? factor * vectors[m * d + k] : T(0);
        }
        for (Index row = 0; row < tile_rows; ++row) {
            last[m * tile_rows + row] = row < rest ? coefficients[m * n + whole * tile_rows + row] : T(0);
        }
    }
    const auto multiply = [&](const T* from, Index step, T* to, Index rows) {
        for (Index slice = 0; slice < slices; ++slice) {
            const Index filled = std::min(width, d - slice * width);
            tile<tile_rows, 2, T>(from, 1, step, laid_out.get() + slice * count * width, width, count,
                                  [&](const auto& sums) {
                                      T* const first = to + slice * width;
                                      if (rows == tile_rows && filled == width)
                                          return store_tile<tile_rows, 2, T>(sums, first, d);
                                      const auto bytes = static_cast<std::size_t>(filled) * sizeof(T);
                                      for (Index row = 0; row < rows; ++row)
                                          __builtin_memcpy(first + row * d, sums[row], bytes);
                                  });
        }
    };
    in_parallel(whole, threads, [&](Index start, Index stop) {
        for (Index i = start * tile_rows; i < stop * tile_rows; i += tile_rows)
            multiply(coefficients + i, n, x + i * d, tile_rows);
    });
    if (rest > 0) multiply(last.get(), tile_rows, x + whole * tile_rows * d, rest);
}

template <class T>
void combine_axes(const T* coefficients, Index n, const Index* axes, Index count, Index d, T factor, T* x,
                  Index threads) {
    in_parallel(n, threads, [=](Index start, Index stop) {
        std::fill(x + start * d, x + stop * d, T(0));
        for (Index i = start; i < stop; ++i) {
            for (Index m = 0; m < count; ++m) x[i * d + axes[m]] += factor * coefficients[m * n + i];
        }
    });
}

template <class T>
void normalise(T* __restrict x, Index d) {
    const T inverse = 1 / std::sqrt(dot<T>(x, x, d));
    for (Index j = 0; j < d; ++j) x[j] *= inverse;
}

// Pairs of Gaussian vectors become orthonormal.
template <class T>
void orthonormalise(T* pairs, Index count, Index d) {
    for (Index k = 0; k < count; ++k) {
        T* __restrict p = pairs + 2 * k * d, * __restrict q = p + d;
        normalise(p, d);
        normalise(q, d);
        for (int time = 0; time < 2; ++time) {  // a nearly parallel pair loses orthogonality the first time
            const T along = dot<T>(p, q, d);
            for (Index j = 0; j < d; ++j) q[j] -= along * p[j];
        }
        normalise(q, d);
    }
}

}  // namespace

// Of the circles' vectors, `count` of them, or where these are null of axes by number.
#define DEFINE(T)                                                                                                      \
    UNCLUMP_EXPORT int unclump_orthonormalise_##T(T* pairs, Index count, Index d) {                                    \
        return guarded([&] { orthonormalise(pairs, count, d); });                                                      \
    }                                                                                                                  \
    UNCLUMP_EXPORT int unclump_coordinates_##T(const T* x, const T* vectors, const Index* axes, T* products, Index n,  \
                                               Index d, Index count, Index threads) {                                  \
        return guarded([&] {                                                                                           \
            if (vectors != nullptr) return coordinates<T>(x, n, d, vectors, count, products, nullptr, threads);        \
            coordinates_on_axes<T>(x, n, d, axes, count, products, nullptr, threads);                                  \
        });                                                                                                            \
    }                                                                                                                  \
    UNCLUMP_EXPORT int unclump_even_spacing_##T(const T* x, const T* vectors, const Index* axes, T* products,          \
                                                T* value, Index n, Index d, Index count, double factor, double offset, \
                                                Index threads) {                                                       \
        return guarded([&] {                                                                                           \
            Buffer<T> inverse(n);                                                                                      \
            if (vectors != nullptr) {                                                                                  \
                coordinates(x, n, d, vectors, count, products, inverse.get(), threads);                                \
            } else {                                                                                                   \
                coordinates_on_axes(x, n, d, axes, count, products, inverse.get(), threads);                           \
            }                                                                                                          \
            require_directions(inverse.get(), n);                                                                      \
            *value = static_cast<T>(even_spacing(products, inverse.get(), n, count / 2, factor, threads) + offset);    \
        });                                                                                                            \
    }                                                                                                                  \
    UNCLUMP_EXPORT int unclump_combine_##T(const T* coefficients, const T* vectors, const Index* axes, T* x, Index n,  \
                                           Index d, Index count, double factor, Index threads) {                       \
        return guarded([&] {                                                                                           \
            const T scale = static_cast<T>(factor);                                                                    \
            if (vectors != nullptr) return combine(coefficients, n, vectors, count, d, scale, x, threads);             \
            combine_axes(coefficients, n, axes, count, d, scale, x, threads);                                          \
        });                                                                                                            \
    }
UNCLUMP_FOR_BOTH(DEFINE)
