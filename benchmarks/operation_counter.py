"""Counts what torch does: operations, bytes written, flops of matrix products, double precision, synchronisation."""

import math
from collections import Counter

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
MATRICES = {  # where the arguments of a product are
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "vdot": (0, 1),
    "addmm": (1, 2), "addmm_": (1, 2), "baddbmm": (1, 2), "baddbmm_": (1, 2), "addbmm": (1, 2), "addmv": (1, 2),
    "addmv_": (1, 2), "_addmm_activation": (1, 2),
}  # fmt: skip
SCATTERING = {"scatter_", "scatter_add_"}  # by an index of as many entries as they write
SYNCHRONISING = {"_local_scalar_dense", "nonzero", "masked_select", "item", "equal", "_unique2", "unique_dim"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}


class OperationCounter(TorchDispatchMode):
    """Counts the operations that run while it is active, backward included.

    Views and allocations write nothing and are not counted. An operator of one of the given namespaces is counted as
    the operations it is made of.

    Example:
        >>> with OperationCounter() as counter:
        ...     torch.ones(3, 4).mm(torch.ones(4, 5)).mT.exp_()
        >>> counter.operations, counter.bytes, counter.flops
        (4, 248, 120)
    """

    def __init__(self, *, opened: tuple[str, ...] = ("unclump",)) -> None:
        super().__init__()
        self.opened = opened
        self.operations = self.bytes = self.flops = 0
        self.float64, self.synchronising = Counter(), Counter()  # how often, by the operation's name

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function.namespace in self.opened:
            return self._open(function, args, kwargs)
        with self:  # inside an opened operator, composite operations such as matmul arrive whole
            result = function.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        result = function(*args, **kwargs)
        self._count(function, args, kwargs, result)
        return result

    def summary(self):
        return {
            "operations": self.operations,
            "bytes": self.bytes,
            "flops": self.flops,
            "float64": dict(self.float64),
            "synchronising": dict(self.synchronising),
        }

    def _open(self, function, args, kwargs):
        """Run the kernel of the tensors' device, with the counter active inside: a call would only come back here."""
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        device = tensors[0].device.type if tensors else "cpu"
        backend = {"cpu": torch.DispatchKey.CPU, "cuda": torch.DispatchKey.CUDA}[device]
        with self:
            return function.redispatch(torch._C.DispatchKeySet(backend), *args, **kwargs)

    def _count(self, function, args, kwargs, result):
        name = function._schema.name.split("::")[1]
        if name in SYNCHRONISING or (name in INDEXING and _has_boolean(args[1])):
            self.synchronising[name] += 1
        written = _written(function, args, kwargs, result)
        if not written or name in ALLOCATIONS:
            return
        self.operations += 1
        if name in SCATTERING:  # which touch some entries of a tensor in place
            self.bytes += args[2].numel() * written[0].element_size()
        else:
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in written)
        self.flops += _matrix_flops(name, args)
        self.float64[name] += any(tensor.dtype is torch.float64 for tensor in written)
        self.float64 = +self.float64  # without zeros


def _has_boolean(indices):
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _written(function, args, kwargs, result):
    """The tensors that the operation writes: those it changes in place, or new ones."""
    in_place = [
        kwargs.get(argument.name, args[number] if number < len(args) else None)
        for number, argument in enumerate(function._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if in_place:
        return [leaf for leaf in tree_leaves(in_place) if isinstance(leaf, Tensor)]
    known = {_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    return [output for output in outputs if _storage(output) not in known]


def _storage(tensor):
    return tensor.untyped_storage()._cdata


def _matrix_flops(name, args):
    if name == "_cdist_forward":
        return 2 * math.prod(args[0].shape) * args[1].shape[-2]
    if name not in MATRICES:
        return 0
    left, right = (args[position] for position in MATRICES[name])
    return 2 * math.prod(left.shape) * (right.shape[-1] if right.ndim > 1 else 1)
