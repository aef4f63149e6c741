"""What the engine sends: streams without a timeout of their own, and files."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, TypeVar

from suite.engines.docker.connection import sdk_errors
from suite.engines.errors import EngineLost
from suite.errors import EngineError

T = TypeVar("T")


def write(chunks: Iterable[bytes], file: IO[bytes]) -> None:
    """Write what the engine sends; a full disk is not an error of the engine."""
    stream = iter(chunks)
    while True:
        with sdk_errors():
            chunk = next(stream, None)
        if chunk is None:
            return
        try:
            file.write(chunk)
        except OSError as error:
            raise EngineError(
                f"what the engine sends cannot be written: {error.strerror}",
                hint="free space, or set TMPDIR to a folder with more",
            ) from None


@dataclass(frozen=True)
class End:
    """The end of a stream; `error` where it broke off."""

    error: Exception | None = None


def queued_items(stream: Iterable[T]) -> queue.Queue[T | End]:
    """A queue with the items of a stream that has no timeout of its own, and its end."""
    items: queue.Queue[T | End] = queue.Queue()

    def copy() -> None:
        end = End()
        try:
            for item in stream:
                items.put(item)
        except Exception as error:
            end = End(error)
        finally:
            items.put(end)

    threading.Thread(target=copy, daemon=True).start()
    return items


def items_until(stopped: threading.Event, stream: Iterable[T]) -> Iterator[T]:
    """The items of a stream that is read in a thread; they end when `stopped` is set.

    Raise EngineLost where the stream breaks off.
    """
    queued = queued_items(stream)
    while not stopped.is_set():
        try:
            item = queued.get(timeout=0.2)
        except queue.Empty:
            continue
        if isinstance(item, End):
            if item.error:
                reason = " ".join(str(item.error).split())
                raise EngineLost(f"the engine's answer broke off: {reason}", hint="dlsuite doctor")
            return
        yield item
