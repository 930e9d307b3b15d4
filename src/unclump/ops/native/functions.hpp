// Elementary functions of vectors, by polynomials, right to about the last digit; of single numbers, those of the
// standard library under the same names.
#pragma once

#include "vectors.hpp"

inline double exponential(double x) {
    return std::exp(x);
}
inline double logarithm(double x) {
    return std::log(x);
}
inline double square_root(double x) {
    return std::sqrt(x);
}
inline double select(bool condition, double one, double other) {
    return condition ? one : other;
}
inline double arc_tangent(double tangent, double) {
    return std::atan(tangent);
}

template <class V, class T = std::decay_t<decltype(V{}[0])>, class = std::enable_if_t<!std::is_arithmetic_v<V>>>
using EntryOf = T;

template <class M, class V, class = EntryOf<V>>
inline V select(const M& condition, const V& one, const V& other) {
    return condition ? one : other;
}

template <class V, class T = EntryOf<V>>
inline V square_root(const V& x) {
    V result;
    for (int lane = 0; lane < lanes<T>; ++lane) result[lane] = std::sqrt(x[lane]);
    return result;
}

// Coefficients c[0] + c[1] x + ... by Horner's rule.
template <class V, class T, int count>
inline V polynomial(const V& x, const T (&coefficients)[count]) {
    V result = coefficients[count - 1] - V{};
#pragma GCC unroll 32
    for (int k = count - 2; k >= 0; --k) result = result * x + coefficients[k];
    return result;
}

template <class T>
struct Coefficients;  // of Taylor's series of exp(x) and of artanh(x) / x in x^2; of atan(x) / x in x^2 on [0, 1]

template <>
struct Coefficients<float> {
    static constexpr float exponential[] = {1.f, 1.f, 1.f / 2, 1.f / 6, 1.f / 24, 1.f / 120, 1.f / 720, 1.f / 5040};
    static constexpr float area_tangent[] = {1.f, 1.f / 3, 1.f / 5, 1.f / 7, 1.f / 9, 1.f / 11};
    static constexpr float arc_tangent[] = {0.9999999972f,  -0.3333327629f,  0.1999807528f,  -0.1426001608f,
                                            0.109323415f,   -0.08349724968f, 0.05708955593f, -0.03035186479f,
                                            0.01048764925f, -0.001701170064f};
    static constexpr float smallest_exponent = -87, largest_exponent = 88;
    static constexpr float log2_high = 0.693359375f, log2_low = -2.12194440e-4f;
    static constexpr float shift = 12582912.f;  // 1.5 * 2^23: adding it rounds to whole numbers
    static constexpr int digits = 23, bias = 127;
};

template <>
struct Coefficients<double> {
    static constexpr double exponential[] = {
        1.,        1.,         1. / 2,      1. / 6,       1. / 24,       1. / 120,       1. / 720,
        1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600, 1. / 6227020800.};
    static constexpr double area_tangent[] = {1.,      1. / 3,  1. / 5,  1. / 7,  1. / 9,  1. / 11,
                                              1. / 13, 1. / 15, 1. / 17, 1. / 19, 1. / 21, 1. / 23};
    static constexpr double arc_tangent[] = {
        0.999999999999999999,     -0.333333333333332478,   0.199999999999861568,   -0.142857142848204287,
        0.111111110803838533,     -0.0909090844033884344,  0.0769229843298568504,  -0.0666657280628976317,
        0.0588164723671741498,    -0.0525910378948588166,  0.0474370596643216963,  -0.0428286457027944738,
        0.0381298097542250422,    -0.0326411629297707717,  0.0259471057039563025,  -0.018386836817918876,
        0.0111220146697526334,    -0.00548477897180935583, 0.00209063353526367613, -0.000572792578129209658,
        0.0000997841081195303136, -8.26799581733715019e-6};
    static constexpr double smallest_exponent = -708, largest_exponent = 709;
    static constexpr double log2_high = 6.93147180369123816490e-01, log2_low = 1.90821492927058770002e-10;
    static constexpr double shift = 6755399441055744.;  // 1.5 * 2^52
    static constexpr int digits = 52, bias = 1023;
};

// Beyond what T holds the nearest number that it does, but NaN is NaN.
template <class V, class T = EntryOf<V>>
inline V exponential(const V& exponent) {
    using C = Coefficients<T>;
    const V smallest = C::smallest_exponent - V{}, largest = C::largest_exponent - V{};
    V x = larger(smallest, exponent);
    x = largest < x ? largest : x;
    const V shifted = x * T(1.44269504088896340736) + C::shift, whole = shifted - C::shift;
    const V rest = (x - whole * C::log2_high) - whole * C::log2_low;
    // The lowest bits of `shifted` are the whole number, which belongs into the exponent's place.
    using I = Vector<Integer<T>>;
    const V power = (V)(((I)shifted << C::digits) + (I)(T(1) - V{}));
    return polynomial(rest, C::exponential) * power;
}

// Of normal positive numbers.
template <class V, class T = EntryOf<V>>
inline V logarithm(const V& x) {
    using C = Coefficients<T>;
    using I = Vector<Integer<T>>;
    const I root_half = (I)(T(0.70710678118654752440) - V{});
    const I exponent = ((I)x - root_half) >> C::digits;  // so that the rest is between the roots of 1/2 and 2
    const V rest = (V)((I)x - (exponent << C::digits));
    const V ratio = (rest - T(1)) / (rest + T(1)), whole = __builtin_convertvector(exponent, V);
    const V series = polynomial(ratio * ratio, C::area_tangent);
    return whole * C::log2_high + (whole * C::log2_low + T(2) * ratio * series);
}

// The angle in [0, pi / 2] of this tangent and cotangent.
template <class V, class T = EntryOf<V>>
inline V arc_tangent(const V& tangent, const V& cotangent) {
    const auto steep = tangent > cotangent;
    const V ratio = steep ? cotangent : tangent;
    const V angle = ratio * polynomial(ratio * ratio, Coefficients<T>::arc_tangent);
    return steep ? T(1.57079632679489661923) - angle : angle;
}
