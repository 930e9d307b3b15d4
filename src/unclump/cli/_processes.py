"""Commands that several processes run together, as `torchrun -m unclump measure` starts them: one of them prints."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from unclump._text import FileError
from unclump.cli._memory import MESSAGE, is_out_of_memory

# In the messages of torch if another process has ended.
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Processes:
    """The processes that run a command, and which of them this is."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that prints and writes."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The items of this process, of so many in all; shares differ by at most one, and the first is not empty."""
        return slice(-(-count * self.rank // self.size), -(-count * (self.rank + 1) // self.size))

    def gather(self, value: Any) -> list[Any]:
        """The objects of all processes."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def all_or_none(self, work: Callable[[], _Result]) -> _Result:
        """The result of work that every process does; if it fails on one, all stop, with a single message."""
        if self.size == 1:
            return work()
        result, message = None, None
        try:
            result = work()
        except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
            message = str(error)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            message = MESSAGE
        messages = self.gather(message)
        failed = [rank for rank, text in enumerate(messages) if text is not None]
        if failed:
            raise FileError(f"{messages[failed[0]]} (process {failed[0]} of {self.size})")
        return result  # type: ignore[return-value]  # there was no error


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Connect the processes that torchrun started, unless they are connected; does nothing for a single process.

    An error that all have in common is printed by the first one only. A process that runs out of memory while others
    wait for it prints its own message; the others end without it.
    """
    # Schedulers also set WORLD_SIZE for commands that do not belong together.
    size = int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1
    if size == 1:
        yield Processes()
        return
    import torch.distributed as dist

    is_connected = dist.is_initialized()
    if not is_connected:
        dist.init_process_group("gloo")
    processes = Processes(dist.get_rank(), size)
    try:
        yield processes
    except ValueError:
        if processes.is_first:
            raise
        raise SystemExit(2) from None
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise FileError(f"{MESSAGE} (process {processes.rank} of {size})") from error
        if not any(sign in str(error) for sign in _LOST):
            raise
        if processes.is_first:
            raise FileError("another process ended: it says why, or was killed, as for want of memory") from error
        raise SystemExit(2) from None
    finally:
        if not is_connected:
            dist.destroy_process_group()
