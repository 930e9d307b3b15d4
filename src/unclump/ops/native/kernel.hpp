// Kernels as functions of the squared chord, of vectors in a pass over pairs and of single numbers for near pairs.
#pragma once

#include "functions.hpp"

// Of Riesz's family, inverse has s = 1, logarithm 0 and distance -1.
enum class Form : Index { gaussian, laplace, riesz, inverse, logarithm, distance };
enum class Metric : Index { chordal, geodesic, shifted };

// With D the distance: exp(offset - parameter D^2), exp(offset - parameter D), sign(s) D^-s with s the parameter, 1 /
// D, -log D, -D. Shifted Gaussians are chordal ones with another offset.
struct Kernel {
    Form form;
    Metric metric;
    double parameter, offset;
};

// The kernel's value and its derivative by the squared chord, which is neither zero nor four.
template <Form form, Metric metric>
struct Evaluate {
    template <class V>
    static inline void at(const Kernel& kernel, const V& r2, V& value, V& slope) {
        using T = decltype(entry_type(V{}));
        const T parameter = static_cast<T>(kernel.parameter), offset = static_cast<T>(kernel.offset);
        constexpr bool needs_distance = form == Form::laplace || form == Form::distance;
        V distance{}, squared, derivative, rate{};  // the last of the distance, the other of its square
        if constexpr (metric == Metric::chordal) {
            squared = r2;
            derivative = 1 + V{};
        } else if constexpr (metric == Metric::shifted) {
            squared = 1 + r2 / 2;
            derivative = T(0.5) + V{};
        } else {
            // With s = |x + y| the angle is 2 atan(r / s), its derivative 1 / (r s), and r / s is r^2 / (r s).
            const V inverse = 1 / square_root(V(r2 * (4 - r2)));
            distance = 2 * arc_tangent(V(r2 * inverse), V((4 - r2) * inverse));
            squared = distance * distance;
            derivative = 2 * distance * inverse;
            rate = inverse;
        }
        constexpr bool has_distance = metric == Metric::geodesic;
        if constexpr (needs_distance && !has_distance) {
            distance = square_root(squared);
            rate = derivative / (2 * distance);
        }
        if constexpr (form == Form::gaussian) {
            value = exponential(V(offset - parameter * squared));
            slope = -parameter * derivative * value;
        } else if constexpr (form == Form::laplace) {
            value = exponential(V(offset - parameter * distance));
            slope = -parameter * rate * value;
        } else if constexpr (form == Form::riesz) {
            const V size = exponential(V(-parameter / 2 * logarithm(squared)));
            value = parameter > 0 ? size : -size;
            slope = -parameter / 2 * derivative * value / squared;
        } else if constexpr (form == Form::inverse) {
            const V inverse = 1 / squared;
            value = has_distance ? distance * inverse : square_root(inverse);
            slope = T(-0.5) * derivative * value * inverse;
        } else if constexpr (form == Form::distance) {
            value = -distance;
            slope = -rate;
        } else {
            value = T(-0.5) * logarithm(squared);
            slope = T(-0.5) * derivative / squared;
        }
    }

  private:
    static double entry_type(double);
    template <class V, class T = EntryOf<V>>
    static T entry_type(const V&);
};

// Calls body(Evaluate<form, metric>()) for those of the kernel.
template <class Body>
void with_kernel(const Kernel& kernel, const Body& body) {
    const auto with_metric = [&](auto form) {
        constexpr Form known = decltype(form)::value;
        if (kernel.metric == Metric::chordal) return body(Evaluate<known, Metric::chordal>());
        if (kernel.metric == Metric::geodesic) return body(Evaluate<known, Metric::geodesic>());
        if constexpr (known != Form::gaussian) return body(Evaluate<known, Metric::shifted>());
    };
    if (kernel.form == Form::gaussian) return with_metric(std::integral_constant<Form, Form::gaussian>());
    if (kernel.form == Form::laplace) return with_metric(std::integral_constant<Form, Form::laplace>());
    if (kernel.form == Form::riesz) return with_metric(std::integral_constant<Form, Form::riesz>());
    if (kernel.form == Form::inverse) return with_metric(std::integral_constant<Form, Form::inverse>());
    if (kernel.form == Form::logarithm) return with_metric(std::integral_constant<Form, Form::logarithm>());
    with_metric(std::integral_constant<Form, Form::distance>());
}
