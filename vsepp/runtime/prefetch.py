"""Items prepared in a thread ahead of their use: inputs of the next steps, while a GPU computes a step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch

T = TypeVar("T")

THREAD = "prefetch"


@contextmanager
def prefetched(items: Iterator[T], depth: int, device: torch.device) -> Iterator[Iterator[T]]:
    """Draw items in a thread, in their order and at most `depth` ahead of the one in use.

    On a GPU they are made on a separate stream. An error in drawing an item is raised where the item would have come. When
    the context is left, however it is left, the thread has ended.

    Parameters
    ----------
    items
        Drawn only by the thread. On a GPU, objects with a method `tensors()` that returns all tensors made by drawing them.
    depth
        0: each item is drawn when it is needed, without a thread.
    device
        Where they are made.
    """
    if not depth:
        yield items
        return
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    with ThreadPoolExecutor(1, THREAD) as thread:
        waiting = deque(thread.submit(_made, items, stream) for _ in range(depth))
        try:
            yield _taken(waiting, thread, items, stream)
        finally:
            for future in waiting:
                future.cancel()


def _made(items: Iterator[T], stream: torch.cuda.Stream | None) -> tuple[T, torch.cuda.Event | None] | None:
    """The next item and the event after which its tensors are ready; nothing after the last."""
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        for item in items:
            return item, None if stream is None else stream.record_event()
    return None


def _taken(
    waiting: deque[Future], thread: ThreadPoolExecutor, items: Iterator[T], stream: torch.cuda.Stream | None
) -> Iterator[T]:
    while made := waiting.popleft().result():
        waiting.append(thread.submit(_made, items, stream))
        item, ready = made
        if stream is not None:
            _hand_over(item, ready, stream.device)
        yield item


def _hand_over(item: Any, ready: torch.cuda.Event, device: torch.device) -> None:
    """Make the current stream wait for an item's tensors, and keep their memory until it has read them."""
    stream = torch.cuda.current_stream(device)
    stream.wait_event(ready)
    for tensor in item.tensors():
        if tensor.device.type == "cuda":
            tensor.record_stream(stream)
