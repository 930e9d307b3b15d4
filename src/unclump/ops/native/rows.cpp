// Steps of Riemannian SGD and Adam on the rows of a table, in place: the formulas and names of ops/update_rules.py.
#include <deque>
#include <memory>
#include <stdexcept>

#include "team.hpp"
#include "vectors.hpp"

namespace {

// The cosine of the angle to turn by, and its sine over the speed.
struct Turn {
    double cosine, sine;

    Turn(double squared_speed, double rate, bool exact) : Turn(small(squared_speed, rate)) {
        const double square = rate * rate * squared_speed;
        if (!exact) {
            cosine = 1 / std::sqrt(1 + square);
            sine = rate * cosine;
        } else if (!is_small(square)) {
            const double length = std::sqrt(square);
            cosine = std::cos(length);
            sine = rate * std::sin(length) / length;
        }
    }

    // Almost every step: the series are right to the last digit, at a tenth of the time.
    static bool is_small(double square) { return square < 0.01; }
    static Turn small(double squared_speed, double rate) {
        const double square = rate * rate * squared_speed;
        return {
            1 - square * (1 / 2. - square * (1 / 24. - square * (1 / 720. - square * (1 / 40320. - square / 3628800)))),
            rate * (1 - square * (1 / 6. - square * (1 / 120. - square * (1 / 5040. - square / 362880))))};
    }

  private:
    Turn(double cosine, double sine) : cosine(cosine), sine(sine) {}
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
        Factors& known = known_[step % count];
        if (known.step != step) {
            const double t = static_cast<double>(step);
            known = {step, -lr_ / std::expm1(t * logarithms_[0]), -1 / std::expm1(t * logarithms_[1])};
        }
        return known;
    }

  private:
    static constexpr Index count = 64;
    double lr_, logarithms_[2];
    Factors known_[count];
};

// The first moment, in place, and the squared lengths of the gradient's tangent part and of the moment.
template <class T, bool fits = true>
void add_moment(const T* __restrict x, const T* __restrict grad, T* __restrict moment, Index d, T share, T& speed,
                T& length) {
    T radial;
    if (!multiply<fits>(x, grad, d, radial)) return add_moment<T, false>(x, grad, moment, d, share, speed, length);
    if (radial == 0 && is_zero(x, d)) {  // without a direction it stays
        speed = length = 0;
        return;
    }
    Vector<T> speeds = {}, lengths = {};
    Index j = 0;
    for (; j + lanes<T> <= d; j += lanes<T>) {
        const Vector<T> tangent = bounded<fits, T>(load(grad + j)) - radial * load(x + j), before = load(moment + j);
        const Vector<T> after = before + share * (tangent - before);
        store<T>(moment + j, after);
        speeds += tangent * tangent;
        lengths += after * after;
    }
    speed = sum<T>(speeds);
    length = sum<T>(lengths);
    for (; j < d; ++j) {
        const T tangent = bounded<fits, T>(grad[j]) - radial * x[j];
        const T after = moment[j] + share * (tangent - moment[j]);
        moment[j] = after;
        speed += tangent * tangent;
        length += after * after;
    }
}

// Replaces x by the unit vector y along cosine * x - sine * v, and v by its part that is tangent at y.
template <class T>
void step(T* __restrict x, T* __restrict v, Index d, T cosine, T sine) {
    T totals[2];
    reduce<T, 2>(d, totals, [=](const auto& at, auto& total) {
        const auto velocity = at(static_cast<const T*>(v));
        const auto y = cosine * at(static_cast<const T*>(x)) - sine * velocity;
        total[0] += y * y;
        total[1] += y * velocity;
    });
    const T inverse = T(1) / std::sqrt(totals[0]), radial = totals[1] / totals[0];
    for (Index j = 0; j < d; ++j) {
        const T y = cosine * x[j] - sine * v[j];
        v[j] -= radial * y;
        x[j] = inverse * y;
    }
}

// A few rows at a time, first the moments of all, then the turns, by vectors, then the steps: one's roots are not
// waited for by the next.
template <class T>
void adam_rows(const Gradients<T>& grad, T* x, T* exp_avg, T* exp_avg_sq, T* max_exp_avg_sq, Index* steps, Index d,
               const Adam& choices, Index start, Index stop) {
    constexpr Index together = 16;
    const T share = static_cast<T>(1 - choices.beta1), second_share = static_cast<T>(1 - choices.beta2);
    Bias bias(choices);
    for (Index first = start; first < stop; first += together) {
        const Index count = std::min(together, stop - first);
        T lengths[together] = {}, cosines[together], sines[together];
        double seconds[together] = {}, rates[together] = {};  // of rows that are left out, zero
        // Named rows are anywhere in the table: the next ones are on their way while these are computed.
        for (Index t = first + together; t < std::min(first + 2 * together, stop) && !grad.are_all(); ++t) {
            const Index i = grad.row(t);
            for (Index j = 0; j < d; j += 64 / static_cast<Index>(sizeof(T))) {
                __builtin_prefetch(x + i * d + j, 1);
                __builtin_prefetch(exp_avg + i * d + j, 1);
            }
            __builtin_prefetch(exp_avg_sq + i, 1);
            __builtin_prefetch(steps + i, 1);
        }
        for (Index t = 0; t < count; ++t) {
            const T* const gradient = grad.gradient(first + t);
            if (choices.lazy && !is_nonzero(gradient, d)) continue;
            const Index i = grad.row(first + t);
            const auto& factors = bias.at(++steps[i]);
            T speed;
            add_moment(x + i * d, gradient, exp_avg + i * d, d, share, speed, lengths[t]);
            T second = exp_avg_sq[i] += second_share * (speed - exp_avg_sq[i]);
            if (max_exp_avg_sq != nullptr) {
                if (!(second <= max_exp_avg_sq[i])) max_exp_avg_sq[i] = second;  // NaN, too
                second = max_exp_avg_sq[i];
            }
            seconds[t] = static_cast<double>(second) * factors.second;
            rates[t] = factors.rate;
        }
        for (Index t = 0; t < together; ++t) {
            rates[t] /= std::sqrt(seconds[t]) + choices.eps;
            const Turn turn = Turn::small(static_cast<double>(lengths[t]), rates[t]);
            cosines[t] = static_cast<T>(turn.cosine);
            sines[t] = static_cast<T>(turn.sine);
        }
        for (Index t = 0; t < count; ++t) {
            if (lengths[t] == 0) continue;  // rounding would move the row
            const double length = static_cast<double>(lengths[t]);
            if (!choices.exact || !Turn::is_small(rates[t] * rates[t] * length)) {
                const Turn turn(length, rates[t], choices.exact);
                cosines[t] = static_cast<T>(turn.cosine);
                sines[t] = static_cast<T>(turn.sine);
            }
            const Index i = grad.row(first + t);
            step(x + i * d, exp_avg + i * d, d, cosines[t], sines[t]);
        }
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
            in_parallel(gradients.count(), threads, [&](Index start, Index stop) {                                     \
                adam_rows(gradients, x, exp_avg, exp_avg_sq, max_exp_avg_sq, steps, d, choices, start, stop);          \
            });                                                                                                        \
        });                                                                                                            \
    }
UNCLUMP_FOR_BOTH(DEFINE)
