"""Keep points apart on spheres: dispersion objectives, measures and optimisers.

The public names are those of `unclump._public`, which is imported, with torch, when the first of them is used. So the
command line can start without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unclump._public import *  # noqa: F403
    from unclump._public import __all__ as __all__

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":  # a name that the interpreter looks up
        raise AttributeError(f"module 'unclump' has no attribute {name!r}")
    public = import_module("unclump._public")
    if name in ("__all__", *public.__all__):
        globals()[name] = getattr(public, name)
    if name not in globals():  # by now, globals also contain imported subpackages
        raise AttributeError(f"module 'unclump' has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({"__all__", "__doc__", "__version__", *__getattr__("__all__")})
