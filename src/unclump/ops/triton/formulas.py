"""Functions of the kernels' tiles: angles, and repelling kernels with their derivative by the squared chord."""

from typing import no_type_check

import triton
import triton.language as tl

from unclump.ops.native.kernel_sum import DISTANCES, FORMS

GEODESIC, SHIFTED = tl.constexpr(DISTANCES["geodesic"]), tl.constexpr(DISTANCES["shifted"])
GAUSSIAN, LAPLACE, RIESZ, INVERSE, LOGARITHM, DISTANCE = (tl.constexpr(form) for form in FORMS)
FRAME = tl.constexpr(len(FORMS))  # the squared cosine, which the compiled loops do not have


@triton.jit
@no_type_check
def arc_tangent(tangent):
    """Of numbers from 0 to 1, by the polynomial of ops/native/functions.hpp: right to the last digit or two."""
    z = tangent * tangent
    series = 0.01048764925 - 0.001701170064 * z
    series = -0.03035186479 + series * z
    series = 0.05708955593 + series * z
    series = -0.08349724968 + series * z
    series = 0.109323415 + series * z
    series = -0.1426001608 + series * z
    series = 0.1999807528 + series * z
    series = -0.3333327629 + series * z
    return tangent * (0.9999999972 + series * z)


@triton.jit
@no_type_check
def value_and_slope(r2, gap, parameter, offset, FORM: tl.constexpr, METRIC: tl.constexpr):
    """A kernel, as `unclump.ops.native.kernel_sum.Code` has it, at squared chords: positive, as is `gap`, 4 - r2."""
    if FORM == FRAME:
        value, slope = (1 - r2 / 2) * (1 - r2 / 2), r2 / 2 - 1
    else:
        if METRIC == GEODESIC:  # with s = |x + y| the angle is 2 atan(r / s), and its derivative 1 / (r s)
            rate = 1 / tl.sqrt(r2 * gap)
            low, high = tl.minimum(r2, gap), tl.maximum(r2, gap)
            angle = arc_tangent(tl.sqrt(low / high))
            distance = 2 * tl.where(r2 > gap, 1.5707963267948966 - angle, angle)
            squared, derivative = distance * distance, 2 * distance * rate
        else:
            squared = 1 + r2 / 2 if METRIC == SHIFTED else r2
            derivative = 0.5 if METRIC == SHIFTED else 1.0
            distance = tl.sqrt(squared)
            rate = derivative / (2 * distance)
        if FORM == GAUSSIAN:
            value = tl.exp(offset - parameter * squared)
            slope = -parameter * derivative * value
        elif FORM == LAPLACE:
            value = tl.exp(offset - parameter * distance)
            slope = -parameter * rate * value
        elif FORM == RIESZ:
            size = tl.exp(-parameter / 2 * tl.log(squared))
            value = tl.where(parameter > 0, size, -size)
            slope = -parameter / 2 * derivative * value / squared
        elif FORM == INVERSE:
            value = 1 / distance
            slope = -0.5 * derivative * value / squared
        elif FORM == DISTANCE:
            value, slope = -distance, -rate
        else:
            value, slope = -0.5 * tl.log(squared), -0.5 * derivative / squared
    return value, slope
