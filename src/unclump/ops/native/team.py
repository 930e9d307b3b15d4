"""Compiled loops on the threads that torch itself uses.

Torch's products and sums run on a team of OpenMP threads, which for some milliseconds stay awake for the next. A
loop of ours given to this team starts within microseconds, where a thread that sleeps takes a hundred; and threads of
our own would share the cores with a team that waits for work.

Where torch's threads are of another kind, a small pool takes their place.
"""

import ctypes
from _thread import interrupt_main
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import lru_cache
from threading import Barrier
from typing import Any

import llvmlite.binding
import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_PIECES = 4  # for each thread: one that wakes late, or shares its core, has fewer

_NUMBER, _SMALL, _POINTER, _NOTHING = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer(), ir.VoidType()
_WORKER = ir.FunctionType(_NOTHING, [_POINTER])
_RUN = ir.FunctionType(_NOTHING, [_WORKER.as_pointer(), _POINTER, _SMALL, _SMALL])  # as OpenMP's runtime has it
_SYMBOL = "unclump_team"
_ALL = _SMALL(0)  # of torch's threads: to be fewer for once, a team would end some and begin them again


def _team(typing: Any, loop: Any, given: Any, count: Any, threads: Any) -> tuple[Any, Callable[..., Any]]:
    """Inside of compiled functions: `team(loop, (a, b), count, threads)` calls `loop(a, b, start, stop)`.

    The ranges make up `range(count)`, some for each of as many threads, and whichever is free takes the next. On one
    thread there is one range.
    """
    inner = loop.get_call_type(typing, (*given.types, types.int64, types.int64), {})

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, values, count, threads = arguments
        made = loop.dispatcher.get_compile_result(inner)
        context.active_code_library.add_linking_library(made.library)
        many = builder.icmp_signed(">", threads, _NUMBER(1))
        most = builder.select(many, builder.mul(threads, _NUMBER(_PIECES)), _NUMBER(1))
        pieces = builder.select(builder.icmp_signed("<", count, most), count, most)

        # What the threads share, on this one's stack: how many pieces are taken, whether one has failed, how many
        # there are, of how much, and the loop's arguments.
        shared = ir.LiteralStructType([*4 * [_NUMBER], context.get_value_type(given)])
        there = cgutils.alloca_once(builder, shared)
        for place, value in enumerate([_NUMBER(0), _NUMBER(0), pieces, count, values]):
            builder.store(value, cgutils.gep_inbounds(builder, there, 0, place))

        name = builder.module.get_unique_name("unclump_worker")
        worker = ir.Function(builder.module, _WORKER, name=name)
        worker.linkage = "internal"
        _take_pieces(context, worker, shared, made.fndesc, inner)
        run = cgutils.get_or_insert_function(builder.module, _RUN, _SYMBOL)
        data = builder.bitcast(there, _POINTER)
        with builder.if_else(many) as (by_many, by_one):
            with by_many:
                builder.call(run, [worker, data, _ALL, _SMALL(0)])
            with by_one:
                builder.call(worker, [data])
        failed = builder.load(cgutils.gep_inbounds(builder, there, 0, 1))
        with builder.if_then(builder.icmp_signed("!=", failed, _NUMBER(0)), likely=False):
            context.call_conv.return_user_exc(builder, MemoryError, ("a loop failed: there is no memory left for it",))
        return context.get_dummy_value()

    return types.void(loop, given, types.int64, types.int64), generate


def _take_pieces(context: Any, worker: ir.Function, shared: Any, loop: Any, signature: Any) -> None:
    """What each of the threads does: as long as there are pieces, take one and call the loop."""
    builder = ir.IRBuilder(worker.append_basic_block("entry"))
    data = builder.bitcast(worker.args[0], shared.as_pointer())
    taken, failed = (cgutils.gep_inbounds(builder, data, 0, place) for place in (0, 1))
    pieces, count, values = (builder.load(cgutils.gep_inbounds(builder, data, 0, place)) for place in (2, 3, 4))
    arguments = cgutils.unpack_tuple(builder, values, len(signature.args) - 2)
    take, work, end = (worker.append_basic_block(name) for name in ("take", "work", "end"))
    builder.branch(take)
    builder.position_at_end(take)
    piece = builder.atomic_rmw("add", taken, _NUMBER(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", piece, pieces), work, end)
    builder.position_at_end(work)
    start = builder.sdiv(builder.mul(count, piece), pieces)
    stop = builder.sdiv(builder.mul(count, builder.add(piece, _NUMBER(1))), pieces)
    status, _ = context.call_internal_no_propagate(builder, loop, signature, [*arguments, start, stop])
    with builder.if_then(status.is_error, likely=False):
        builder.store(_NUMBER(1), failed)
    builder.branch(take)
    builder.position_at_end(end)
    builder.ret_void()


team: Any = intrinsic(_team)


def _by_a_pool(worker: int, data: int, threads: int, flags: int) -> None:
    """What OpenMP's runtime does: call the worker on every thread, this one among them, and return when all have."""
    work, count, interrupted = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(worker), torch.get_num_threads(), False
    others: list[Future[None]] = []
    with suppress(RuntimeError):  # the system gives no more threads: this one does what there is
        others = [_pool(count).submit(work, data) for _ in range(count - 1)]
    work(data)
    while others:  # as long as they run, what they share must stay where it is
        try:
            wait([other for other in others if not other.cancel()])  # who has not woken by now is not waited for
            others = []
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        interrupt_main()


@lru_cache(maxsize=1)
def _pool(count: int) -> ThreadPoolExecutor:
    """Threads that have all begun, so that no call has to begin one."""
    pool, begun = ThreadPoolExecutor(count, thread_name_prefix="unclump"), Barrier(count + 1)
    try:
        for _ in range(count):
            pool.submit(begun.wait)
        begun.wait()
    except BaseException:
        begun.abort()  # those that wait for the others must end
        raise
    return pool


POOL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(_by_a_pool)


def use(function: Any) -> None:
    """Let the loops that are loaded from now on run on the threads of this function."""
    llvmlite.binding.add_symbol(_SYMBOL, ctypes.cast(function, ctypes.c_void_p).value)


use(getattr(ctypes.CDLL(torch._C.__file__), "GOMP_parallel", POOL))
