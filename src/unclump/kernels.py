r"""Repulsive kernels: elementwise functions of the squared chord between two points of the sphere.

Kernels take the squared chord :math:`r^2 = \lVert x - y \rVert^2 \in [0, 4]`, which stays accurate for near points; the
cosine is :math:`1 - r^2 / 2`. A kernel is an immutable value: validated when it is created, printable, comparable and
hashable. Its value decreases with the distance, which is one of

* ``"chordal"``: :math:`r`, the straight line;
* ``"geodesic"``: :math:`\theta = \arccos \langle x, y \rangle`, the angle;
* ``"shifted"``: :math:`\sqrt{2 - \langle x, y \rangle}`, which the kernel table of "Keep your distance" prints where
  the chord :math:`\sqrt{2 - 2 \langle x, y \rangle}` is meant, and which its experiments used. It is at least one, so
  that no kernel is singular, but coinciding points hardly repel each other.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from unclump._checks import check_choice, check_number, check_positive
from unclump._precision import largest_slope
from unclump.geometry.sphere import angle_of

DISTANCES = ("chordal", "geodesic", "shifted")

_KERNELS: dict[str, "Kernel"] = {}


class Kernel(ABC):
    """A decreasing function of the distance between two points, computed from their squared chord."""

    distance: str
    _name: str

    def __post_init__(self) -> None:
        """Register the kernel under its name; see `name_of`."""
        name = repr(self)
        if not _are_equal(_KERNELS.setdefault(name, self), self):  # another kernel has the same repr
            name = f"{name} at {id(self):#x}"
            _KERNELS[name] = self
        object.__setattr__(self, "_name", name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        Kernel.__post_init__(self)  # the name may be taken in this process

    @abstractmethod
    def __call__(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The kernel's value at the squared chord."""

    @abstractmethod
    def derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The derivative of the value with respect to the squared chord."""

    def value_and_derivative(
        self, r2: Float[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """Both in fewer passes over the pairs; derivatives that would overflow are clamped."""
        largest = largest_slope(r2.dtype)
        return self(r2), self.derivative(r2).clamp_(-largest, largest)

    @property
    def exponential(self) -> tuple[float, float] | None:
        """(a, b) if the kernel is exp(a + b r2), so that its derivative is a multiple of its value; otherwise None."""
        return None

    @property
    def vanishes_far(self) -> bool:
        """Whether value and derivative vanish at an infinite squared chord."""
        return self.exponential is not None

    @property
    def may_overflow(self) -> bool:
        """Whether sums of derivatives may overflow in float32, for points at least `apart` from each other."""
        return True

    @property
    def log_self(self) -> float:
        """The value of log k(x, x) if k(x, x) is positive and finite; otherwise NaN."""
        return math.nan

    def relative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """k(x, y) / k(x, x), in [0, 1] even if k itself overflows; for kernels with a `log_self`."""
        return self(r2) * math.exp(-self.log_self)

    def relative_derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The derivative of `relative` with respect to the squared chord."""
        return self.derivative(r2) * math.exp(-self.log_self)


@dataclass(frozen=True)
class Gaussian(Kernel):
    r"""The Gaussian or RBF kernel.

    .. math::
        k(x, y) = \exp(\gamma \langle x, y \rangle) \text{ (chordal)}, \quad
        \exp(-\gamma \theta^2) \text{ (geodesic)}, \quad \exp(-\gamma (2 - \langle x, y \rangle)) \text{ (shifted)}

    The chordal form is that of the paper's table: :math:`e^\gamma \exp(-\tfrac{\gamma}{2} r^2)`, so its gamma is twice
    that of :math:`\exp(-\gamma r^2)`. The geodesic form is not positive definite (Feragen et al. 2015).

    Example:
        >>> Gaussian(gamma=2.0)(torch.tensor([0.0, 2.0, 4.0]))  # coinciding, orthogonal, antipodal
        tensor([7.3891, 1.0000, 0.1353])
    """

    gamma: float = 1.0
    distance: str = "chordal"

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        check_choice("distance", self.distance, DISTANCES)
        super().__post_init__()

    def __call__(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(self.log_self - self._rate * self._squared_distance_excess(r2))

    def derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -self._rate * self(r2) * _squared_distance_derivative(r2, self.distance)

    @property
    def exponential(self) -> tuple[float, float] | None:
        # A subclass may override the formula, and a large gamma overflows in float32.
        if type(self) is not Gaussian or self.distance == "geodesic" or self.log_self > 60:
            return None
        return self.log_self, -self._rate if self.distance == "chordal" else -self._rate / 2

    @property
    def may_overflow(self) -> bool:
        return self.exponential is None

    @property
    def log_self(self) -> float:
        return {"chordal": self.gamma, "geodesic": 0.0, "shifted": -self.gamma}[self.distance]

    def relative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(-self._rate * self._squared_distance_excess(r2))

    def relative_derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -self._rate * self.relative(r2) * _squared_distance_derivative(r2, self.distance)

    @property
    def _rate(self) -> float:
        return self.gamma / 2 if self.distance == "chordal" else self.gamma

    def _squared_distance_excess(self, r2: Tensor) -> Tensor:
        """The squared distance minus its value at coinciding points."""
        return r2 / 2 if self.distance == "shifted" else _squared_distance(r2, self.distance)


@dataclass(frozen=True)
class Laplace(Kernel):
    r"""The Laplace kernel :math:`k(x, y) = \exp(-\gamma \, d(x, y))`.

    With the geodesic distance it is positive definite (Feragen et al. 2015), and its gradient does not vanish as two
    points approach each other.

    Example:
        >>> Laplace()(torch.tensor([0.0, 2.0]))  # 1 and exp(-pi / 2)
        tensor([1.0000, 0.2079])
    """

    gamma: float = 1.0
    distance: str = "geodesic"

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)
        check_choice("distance", self.distance, DISTANCES)
        super().__post_init__()

    def __call__(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(-self.gamma * torch.sqrt(_squared_distance(r2, self.distance)))

    def derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        distance = torch.sqrt(_squared_distance(r2, self.distance))
        slope = _squared_distance_derivative(r2, self.distance)
        return -self.gamma / 2 * torch.exp(-self.gamma * distance) / distance * slope

    def value_and_derivative(
        self, r2: Float[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        if type(self) is not Laplace:
            return super().value_and_derivative(r2)
        half, inverse_slope = _half_distance_and_inverse_derivative(r2, self.distance)
        value = half.mul_(-2 * self.gamma).exp_()
        return value, torch.addcdiv(r2.new_zeros(()), value, inverse_slope, value=-self.gamma)

    @property
    def may_overflow(self) -> bool:
        return False

    @property
    def log_self(self) -> float:
        return -self.gamma if self.distance == "shifted" else 0.0

    def relative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        nearest = 1 if self.distance == "shifted" else 0
        return torch.exp(-self.gamma * (torch.sqrt(_squared_distance(r2, self.distance)) - nearest))

    def relative_derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        slope = _squared_distance_derivative(r2, self.distance)
        return -self.gamma / 2 * self.relative(r2) / torch.sqrt(_squared_distance(r2, self.distance)) * slope


@dataclass(frozen=True)
class Riesz(Kernel):
    r"""The Riesz kernel :math:`k(x, y) = d(x, y)^{-s}`; :math:`-\log d` for s = 0; :math:`-d^{-s}` for s < 0.

    With s = 1 and the chordal distance, its energy is that of electrons on the sphere (Thomson 1904). As s grows, its
    minimisers approach the solutions of the Tammes problem. Infinite at coinciding points for s >= 0, unless shifted.

    Example:
        >>> r2 = torch.tensor([1.0, 4.0])
        >>> Riesz(s=1.0)(r2), Riesz(s=0.0)(r2), Riesz(s=-1.0)(r2)
        (tensor([1.0000, 0.5000]), tensor([-0.0000, -0.6931]), tensor([-1., -2.]))
    """

    s: float = 1.0
    distance: str = "chordal"

    def __post_init__(self) -> None:
        check_number("s", self.s)
        if math.isinf(self.s):
            raise ValueError("expected s to be finite, got inf; the limit s -> inf is the objective MaxMin")
        check_choice("distance", self.distance, DISTANCES)
        super().__post_init__()

    def __call__(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        squared = _squared_distance(r2, self.distance)
        if self.s == 0:
            return -torch.log(squared) / 2
        return math.copysign(1, self.s) * squared ** (-self.s / 2)

    def derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        squared = _squared_distance(r2, self.distance)
        slope = _squared_distance_derivative(r2, self.distance)
        factor = abs(self.s) / 2 if self.s != 0 else 0.5
        return -factor * squared ** (-self.s / 2 - 1) * slope

    def value_and_derivative(
        self, r2: Float[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        if self.may_overflow or self.s == 0 or type(self) is not Riesz:
            return super().value_and_derivative(r2)
        value = torch.rsqrt(r2) if self.s == 1 else r2 ** (-self.s / 2)
        value = value if self.s > 0 else value.neg_()
        return value, (value / r2).mul_(-self.s / 2)

    @property
    def vanishes_far(self) -> bool:
        # A class that is derived from this one may have other values.
        return type(self) is Riesz and self.distance == "chordal" and self.s > 0

    @property
    def may_overflow(self) -> bool:
        return self.distance != "chordal" or self.s > 3

    @property
    def log_self(self) -> float:
        return 0.0 if self.distance == "shifted" and self.s > 0 else math.nan


@dataclass(frozen=True)
class FramePotential(Kernel):
    r"""The squared cosine :math:`k(x, y) = \langle x, y \rangle^2`: smallest for orthogonal points.

    Its energy, the frame potential of [1], is at least :math:`(n/d - 1) / (n - 1)`, which tight frames attain. As a
    regulariser of embeddings it is the second moment of [2]. It does not distinguish a point from its antipode, and a
    tight frame may contain a point twice, so duplicates may stay together. The energy of more than 2d points takes
    O(n d^2) time.

    References:
        [1] Benedetto and Fickus. Finite normalized tight frames. Advances in Computational Mathematics 2003.
        [2] Zhang et al. Learning spread-out local feature descriptors. ICCV 2017.

    Example:
        >>> FramePotential()(torch.tensor([0.0, 2.0, 4.0]))  # coinciding, orthogonal, antipodal
        tensor([1., 0., 1.])
    """

    @property
    def distance(self) -> str:  # type: ignore[override]
        """Always chordal: the cosine is computed from the squared chord."""
        return "chordal"

    def __call__(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return (1 - r2 / 2).square()

    def derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return r2 / 2 - 1

    @property
    def may_overflow(self) -> bool:
        return False


@dataclass(frozen=True)
class Relative(Kernel):
    """k(x, y) / k(x, x): one at coinciding points, and at most one elsewhere."""

    kernel: Kernel

    @property
    def distance(self) -> str:  # type: ignore[override]
        """The distance of the wrapped kernel."""
        return self.kernel.distance

    def __call__(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.kernel.relative(r2)

    @property
    def exponential(self) -> tuple[float, float] | None:
        return None if self.kernel.exponential is None else (0.0, self.kernel.exponential[1])

    @property
    def may_overflow(self) -> bool:
        return self.kernel.may_overflow

    def derivative(self, r2: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.kernel.relative_derivative(r2)


def name_of(kernel: Kernel) -> str:
    """A name from which `kernel_by_name` recovers the kernel: torch operators take strings, not objects."""
    if not hasattr(kernel, "_name"):  # a user-defined kernel
        Kernel.__post_init__(kernel)
    return kernel._name


def kernel_by_name(name: str) -> Kernel:
    """The kernel registered under this name."""
    return _KERNELS[name]


def _are_equal(a: Kernel, b: Kernel) -> bool:
    """Whether two kernels may share a name. Kernels that hold tensors or are not hashable equal only themselves."""
    try:
        return a is b or (hash(a) == hash(b) and bool(a == b))
    except TypeError:  # not hashable
        return False


def _squared_distance(r2: Tensor, distance: str) -> Tensor:
    if distance == "chordal":
        return r2
    if distance == "shifted":
        return 1 + r2 / 2
    return angle_of(r2) ** 2


def _squared_distance_derivative(r2: Tensor, distance: str) -> Tensor:
    """d(distance^2) / d(r2); for the angle, 2 theta / (r sqrt(4 - r2)) without the 0 / 0 at coinciding points."""
    if distance == "chordal":
        return torch.ones_like(r2)
    if distance == "shifted":
        return torch.full_like(r2, 0.5)
    # The angle is not differentiable at antipodes. Rounding hides anything nearer to them than sqrt(eps).
    to_antipode = torch.sqrt((4 - r2).clamp_min(torch.finfo(r2.dtype).eps))
    return 2 / (torch.sinc(angle_of(r2) / (2 * torch.pi)) * to_antipode)


def _half_distance_and_inverse_derivative(r2: Tensor, distance: str) -> tuple[Tensor, Tensor]:
    """Half the distance, and 1 / (derivative of the distance with respect to r2), for r2 > 0; in few passes."""
    if distance == "shifted":
        half = (r2 / 8).add_(0.25).sqrt_()
        return half, 8 * half
    chord = r2.sqrt()
    if distance == "chordal":
        return chord / 2, chord.mul_(2)
    # The angle is not differentiable at antipodes. Rounding hides anything nearer to them than sqrt(eps).
    to_antipode = (4 - r2).clamp_min_(torch.finfo(r2.dtype).eps).sqrt_()
    return torch.atan2(chord, to_antipode), to_antipode.mul_(chord)
