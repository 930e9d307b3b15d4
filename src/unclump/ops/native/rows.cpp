// Steps of Riemannian SGD and Adam on the rows of a table, in place: the formulas and names of ops/update_rules.py.
#include <deque>
#include <memory>
#include <stdexcept>

#include "functions.hpp"
#include "team.hpp"

namespace {

// The cosine of the angle to turn by, and its sine over the speed.
struct Turn {
    double cosine, sine;

    Turn(double squared_speed, double rate, bool exact) {
        const double square = rate * rate * squared_speed;
        if (!exact) {
            cosine = 1 / std::sqrt(1 + square);
            sine = rate * cosine;
        } else if (is_small(square)) {
            cosine = polynomial(square, series_of_cosine);
            sine = rate * polynomial(square, series_of_sine);
        } else {
            const double length = std::sqrt(square);
            cosine = std::cos(length);
            sine = rate * std::sin(length) / length;
        }
    }

    // Almost every step: the series are right to the last digit, at a tenth of the time.
    static bool is_small(double square) { return square < 0.01; }
    static constexpr double series_of_cosine[] = {1., -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800};
    static constexpr double series_of_sine[] = {1., -1. / 6, 1. / 120, -1. / 5040, 1. / 362880};
};

// The rows to touch and their gradients; of rows that are named more than once, the sums of these. All rows where none
// are named.
template <class T>
class Gradients {
  public:
    Gradients(const T* grad, const Index* rows, Index n, Index named, Index d) : grad_(grad), count_(named), d_(d) {
        if (rows == nullptr) return;
        for (Index i = 0; i < named; ++i) {
            if (rows[i] < 0 || rows[i] >= n) throw std::out_of_range("");
        }
        add_up(rows);
    }
    Index count() const { return count_; }
    bool are_all() const { return !different_; }
    Index row(Index k) const { return different_ ? (*different_)[k] : k; }
    const T* gradient(Index k) const { return from_ ? (*from_)[k] : grad_ + k * d_; }

  private:
    // By a table of places, at most half of them taken, where each number looks for itself from its own place on.
    void add_up(const Index* rows) {
        const Index named = count_;
        int bits = 1;
        while ((Index(1) << bits) < 2 * named) ++bits;
        const Index size = Index(1) << bits;
        Buffer<Index> places(size);
        std::fill(places.get(), places.get() + size, -1);
        different_ = std::make_unique<Buffer<Index>>(named);
        from_ = std::make_unique<Buffer<const T*>>(named);
        count_ = 0;
        for (Index i = 0; i < named; ++i) {
            // Odd, and without a pattern: the high bits of its multiples fall everywhere.
            Index place =
                static_cast<Index>((static_cast<std::uint64_t>(rows[i]) * 0x9E3779B97F4A7C15u) >> (64 - bits));
            while (places[place] >= 0 && (*different_)[places[place]] != rows[i]) place = (place + 1) & (size - 1);
            if (places[place] < 0) {
                places[place] = count_;
                (*different_)[count_] = rows[i];
                (*from_)[count_++] = grad_ + i * d_;
            } else {
                add(grad_ + i * d_, (*from_)[places[place]]);
            }
        }
    }

    // The gradient of a row that was named before, to a copy of what it had.
    void add(const T* more, const T*& gradient) {
        sums_.emplace_back(d_);
        T* const sum = sums_.back().get();
        for (Index j = 0; j < d_; ++j) sum[j] = gradient[j] + more[j];
        gradient = sum;
    }

    const T* grad_;
    Index count_, d_;
    std::unique_ptr<Buffer<Index>> different_;
    std::unique_ptr<Buffer<const T*>> from_;
    std::deque<Buffer<T>> sums_;
};

// Entries of gradients are taken to be no larger, so that sums of their squares do not overflow.
template <class T>
const T largest_entry = static_cast<T>(std::pow(static_cast<double>(std::numeric_limits<T>::max()), 0.45));

// An entry or a vector of them, within the bound; NaN stays. Gradients that fit, almost all, are taken as they are.
template <bool fits, class T, class V>
V bounded(const V& entry) {
    if constexpr (fits) {
        return entry;
    } else {
        const V most = largest_entry<T> + V{}, least = -most, above = entry < least ? least : entry;
        return above > most ? most : above;
    }
}

// The product of x and the gradient. False if the gradient was taken to fit and, by the sum of its squares, may not.
template <bool fits, class T>
bool multiply(const T* x, const T* grad, Index d, T& product) {
    T totals[2];
    reduce<T, 2>(d, totals, [=](const auto& at, auto& total) {
        const auto entry = bounded<fits, T>(at(grad));
        total[0] += at(x) * entry;
        total[1] += entry * entry;
    });
    product = totals[0];
    return !fits || totals[1] <= largest_entry<T> * largest_entry<T>;
}

// Whether an entry of a row is not zero, as NaN is not.
template <class T>
bool is_nonzero(const T* row, Index d) {
    Vector<Integer<T>> found = {};
    Index j = 0;
    for (; j + lanes<T> <= d; j += lanes<T>) found |= load(row + j) != Vector<T>{};
    bool any = fold_halves<Integer<T>, vector_bytes>(found, [](const auto& a, const auto& b) { return a | b; }) != 0;
    for (; j < d; ++j) any |= row[j] != 0;
    return any;
}

// Whether a row of the table is padding; almost always its first entry says that it is not.
template <class T>
bool is_zero(const T* row, Index d) {
    return row[0] == 0 && !is_nonzero(row, d);
}

struct Sgd {
    double lr, momentum;
    bool exact;
};

template <class T, bool fits = true>
void sgd_row(T* __restrict x, const T* __restrict grad, T* __restrict buffer, Index d, const Sgd& choices) {
    T product;
    if (!multiply<fits>(x, grad, d, product)) return sgd_row<T, false>(x, grad, buffer, d, choices);
    if (product == 0 && is_zero(x, d)) return;  // without a direction it stays
    const T radial = product, momentum = buffer == nullptr ? T(0) : static_cast<T>(choices.momentum);
    const T* const kept = buffer == nullptr ? grad : buffer;  // read, and taken zero times, without momentum
    // What to step against: the tangent part of the gradient, and the momentum so far.
    const auto velocity = [=](const auto& at) {
        const auto tangent = bounded<fits, T>(at(grad)) - radial * at(static_cast<const T*>(x));
        return momentum == 0 ? tangent : tangent + momentum * at(kept);
    };
    T speed[1], squared[1];
    reduce<T, 1>(d, speed, [&](const auto& at, auto& total) {
        const auto v = velocity(at);
        total[0] += v * v;
    });
    const Turn turn(static_cast<double>(speed[0]), choices.lr, choices.exact);
    const T cosine = static_cast<T>(turn.cosine), sine = static_cast<T>(turn.sine);
    const T inward = static_cast<T>(turn.sine * static_cast<double>(speed[0]));
    reduce<T, 1>(d, squared, [&](const auto& at, auto& total) {
        const auto y = cosine * at(static_cast<const T*>(x)) - sine * velocity(at);
        total[0] += y * y;
    });
    const T inverse = T(1) / std::sqrt(squared[0]);
    const bool moves = speed[0] != 0;  // or rounding would move the row
    for (Index j = 0; j < d; ++j) {
        const T before = x[j], v = velocity([j](const T* from) { return from[j]; });
        if (buffer != nullptr) buffer[j] = cosine * v + inward * before;
        if (moves) x[j] = inverse * (cosine * before - sine * v);
    }
}

struct Adam {
    double lr, beta1, beta2, eps;
    bool exact, lazy;
};

// What Adam's rate and second moment are multiplied by, from powers of the betas: kept by the count of steps, which
// many rows share.
class Bias {
  public:
    struct Factors {
        Index step = 0;
        double rate, second;
    };

    explicit Bias(const Adam& choices)
        : lr_(choices.lr), logarithms_{std::log(choices.beta1), std::log(choices.beta2)} {}  // of zero, minus infinity

    const Factors& at(Index step) {
        Factors& known = known_[static_cast<std::size_t>(step) % count];
        if (known.step != step) {
            const double t = static_cast<double>(step);
            known = {step, -lr_ / std::expm1(t * logarithms_[0]), -1 / std::expm1(t * logarithms_[1])};
        }
        return known;
    }

  private:
    static constexpr std::size_t count = 64;
    double lr_, logarithms_[2];
    Factors known_[count];
};

template <class T>
struct AdamTables {
    T *x, *exp_avg, *exp_avg_sq, *max_exp_avg_sq;
    Index* steps;
};

// Rows that take their steps together: as many as a vector has lanes, since one's roots are not waited for by the next.
template <class T>
struct Together {
    Index count = 0;
    Index rows[lanes<T>];
    const T* gradients[lanes<T>];
};

template <class T, bool fits = true>
void adam_rows(const Together<T>& group, const AdamTables<T>& tables, Index d, const Adam& choices, Bias& bias) {
    constexpr int most = lanes<T>;
    const Index count = group.count;
    const T share = static_cast<T>(1 - choices.beta1), second_share = static_cast<T>(1 - choices.beta2);
    const auto point = [&](Index t) { return tables.x + group.rows[t] * d; };
    const auto moment = [&](Index t) { return tables.exp_avg + group.rows[t] * d; };

    T products[3][most];  // of the point and the gradient, and both squared
    reduce_rows<T, 3>(count, d, products, [&](Index t) {
        return [x = point(t), grad = group.gradients[t]](const auto& at, auto& total) {
            const auto here = at(x), slope = bounded<fits, T>(at(grad));
            total[0] += here * slope;
            total[1] += here * here;
            total[2] += slope * slope;
        };
    });
    const auto &radial = products[0], &norm = products[1];
    // Without a direction it stays; but with a gradient of NaN the product is one.
    const auto stays = [&](Index t) { return norm[t] == 0 && radial[t] == 0; };
    for (Index t = 0; t < count && fits; ++t) {
        if (!(products[2][t] <= largest_entry<T> * largest_entry<T>)) {
            return adam_rows<T, false>(group, tables, d, choices, bias);
        }
    }

    T sums[3][most];  // the gradient's tangent part and the moment, squared; the product of the point and the moment
    reduce_rows<T, 3>(count, d, sums, [&](Index t) {
        const T added = stays(t) ? T(0) : share;
        return [added, product = radial[t], x = point(t), kept = moment(t), grad = group.gradients[t]](const auto& at,
                                                                                                       auto& total) {
            const auto here = at(x), before = at(kept), tangent = bounded<fits, T>(at(grad)) - product * here;
            const auto after = before + added * (tangent - before);
            at.put(kept, after);
            total[0] += tangent * tangent;
            total[1] += after * after;
            total[2] += here * after;
        };
    });
    const auto &speed = sums[0], &length = sums[1], &along = sums[2];

    double rates[most] = {}, seconds[most] = {}, squares[most] = {};
    for (Index t = 0; t < count; ++t) {
        const Index i = group.rows[t];
        const auto& factors = bias.at(++tables.steps[i]);
        T second = tables.exp_avg_sq[i] += second_share * ((stays(t) ? T(0) : speed[t]) - tables.exp_avg_sq[i]);
        if (tables.max_exp_avg_sq != nullptr) {
            T& largest = tables.max_exp_avg_sq[i];
            if (!(second <= largest)) largest = second;  // NaN, too
            second = largest;
        }
        squares[t] = static_cast<double>(length[t]);
        seconds[t] = static_cast<double>(second) * factors.second;
        rates[t] = factors.rate;
    }

    double cosines[most], sines[most];
    for (Index t = 0; t < most; t += lanes<double>) {
        const AtVector<double> at{t};
        const auto rate = at(rates) / (square_root(at(seconds)) + choices.eps);
        const Vector<double> square = rate * rate * at(squares);
        at.put(rates, rate);
        at.put(cosines, polynomial(square, Turn::series_of_cosine));
        at.put(sines, rate * polynomial(square, Turn::series_of_sine));
    }
    for (Index t = 0; t < count; ++t) {
        if (choices.exact && Turn::is_small(rates[t] * rates[t] * squares[t])) continue;
        const Turn turn(squares[t], rates[t], choices.exact);
        cosines[t] = turn.cosine;
        sines[t] = turn.sine;
    }

    for (Index t = 0; t < count; ++t) {
        if (length[t] == 0 || stays(t)) continue;  // rounding would move the row
        // Of y = cosine * x - sine * v: its product with v, which so leaves the tangent space there; and its norm.
        const auto within = static_cast<double>(norm[t]), across = static_cast<double>(along[t]);
        const double inward = cosines[t] * across - sines[t] * squares[t];
        const double square = cosines[t] * (cosines[t] * within - sines[t] * across) - sines[t] * inward;
        const T cosine = static_cast<T>(cosines[t]), sine = static_cast<T>(sines[t]);
        const T inverse = static_cast<T>(1 / std::sqrt(square)), normal = static_cast<T>(inward / square);
        for_entries<T>(d, [=, x = point(t), kept = moment(t)](const auto& at) {
            const auto before = at(kept), y = cosine * at(x) - sine * before;
            at.put(kept, before - normal * y);
            at.put(x, inverse * y);
        });
    }
}

template <class T>
void adam_range(const Gradients<T>& grad, const AdamTables<T>& tables, Index d, const Adam& choices, Index start,
                Index stop) {
    Bias bias(choices);
    for (Index first = start; first < stop; first += lanes<T>) {
        // Named rows are anywhere in the table: the next ones are on their way while these are computed.
        for (Index t = first + lanes<T>; t < std::min(first + 2 * lanes<T>, stop) && !grad.are_all(); ++t) {
            const Index i = grad.row(t);
            for (Index j = 0; j < d; j += 64 / static_cast<Index>(sizeof(T))) {
                __builtin_prefetch(tables.x + i * d + j, 1);
                __builtin_prefetch(tables.exp_avg + i * d + j, 1);
            }
            __builtin_prefetch(tables.exp_avg_sq + i, 1);
            __builtin_prefetch(tables.steps + i, 1);
        }
        Together<T> group;
        for (Index t = first; t < std::min(first + lanes<T>, stop); ++t) {
            if (choices.lazy && !is_nonzero(grad.gradient(t), d)) continue;
            group.rows[group.count] = grad.row(t);
            group.gradients[group.count++] = grad.gradient(t);
        }
        adam_rows(group, tables, d, choices, bias);
    }
}

}  // namespace

// `max_exp_avg_sq` is null without AMSGrad. `rows` names those that `k` gradients belong to, or is null where these are
// of all rows in their order.
#define DEFINE(T)                                                                                                      \
    UNCLUMP_EXPORT int unclump_sgd_##T(T* x, const T* grad, T* buffer, const Index* rows, Index n, Index k, Index d,   \
                                       double lr, double momentum, Index exact, Index threads) {                       \
        return guarded([&] {                                                                                           \
            const Gradients<T> gradients(grad, rows, n, k, d);                                                         \
            const Sgd choices{lr, momentum, exact != 0};                                                               \
            in_parallel(gradients.count(), threads, [&](Index start, Index stop) {                                     \
                for (Index i = start; i < stop; ++i) {                                                                 \
                    const Index place = gradients.row(i) * d;                                                          \
                    T* const kept = buffer == nullptr ? nullptr : buffer + place;                                      \
                    sgd_row(x + place, gradients.gradient(i), kept, d, choices);                                       \
                }                                                                                                      \
            });                                                                                                        \
        });                                                                                                            \
    }                                                                                                                  \
    UNCLUMP_EXPORT int unclump_adam_##T(                                                                               \
        T* x, const T* grad, T* exp_avg, T* exp_avg_sq, T* max_exp_avg_sq, Index* steps, const Index* rows, Index n,   \
        Index k, Index d, Index lazy, double lr, double beta1, double beta2, double eps, Index exact, Index threads) { \
        return guarded([&] {                                                                                           \
            const Gradients<T> gradients(grad, rows, n, k, d);                                                         \
            const Adam choices{lr, beta1, beta2, eps, exact != 0, lazy != 0};                                          \
            const AdamTables<T> tables{x, exp_avg, exp_avg_sq, max_exp_avg_sq, steps};                                 \
            in_parallel(gradients.count(), threads,                                                                    \
                        [&](Index start, Index stop) { adam_range(gradients, tables, d, choices, start, stop); });     \
        });                                                                                                            \
    }
UNCLUMP_FOR_BOTH(DEFINE)
