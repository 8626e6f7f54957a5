"""Items made in a thread ahead of their use: the inputs of the next steps while a step runs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from vsepp.spec import RunSpec
from vsepp.training.step import StepInputs

T = TypeVar("T")

# On a CPU the thread would take the cores that the step computes on.
_DEPTH = {"cuda": 2}


def depth_of(run: RunSpec, device: torch.device) -> int:
    """Steps whose inputs are made ahead."""
    # Precision and CUDA graphs of a frozen encoder are set for a process or a thread: it stays in the step's.
    if run.trainset == "RC" and run.rc_features == "inline" and not run.live_encoder:
        return 0
    return _DEPTH.get(device.type, 0)


@contextmanager
def prefetched(items: Iterator[T], depth: int) -> Iterator[Iterator[T]]:
    """Draw items in a thread, in their order and at most `depth` ahead of the one in use.

    What drawing an item raises is raised where the item would have come. The thread has ended when the context
    is left, however it is left.

    Parameters
    ----------
    items
        Drawn by the thread alone.
    depth
        0 draws each item when it is asked for, without a thread.
    """
    if not depth:
        yield items
        return
    made: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
    room, stopped = threading.Semaphore(depth), threading.Event()

    def make() -> None:
        try:
            while room.acquire() and not stopped.is_set():
                made.put(("item", next(items)))
        except StopIteration:
            made.put(("end", None))
        except BaseException as error:  # the training thread raises it
            made.put(("error", error))

    thread = threading.Thread(target=make, name="prefetch", daemon=True)
    thread.start()
    try:
        yield _taken(made, room.release)
    finally:
        stopped.set()
        room.release()
        thread.join()


def _taken(made: queue.SimpleQueue[tuple[str, object]], make_room: Callable[[], None]) -> Iterator:
    while True:
        kind, content = made.get()
        if kind == "end":
            return
        if kind == "error":
            assert isinstance(content, BaseException)
            raise content
        make_room()
        yield content


@contextmanager
def inputs_ahead(
    inputs: Iterator[StepInputs], device: torch.device, depth: int
) -> Iterator[Iterator[StepInputs]]:
    """Inputs of steps, made ahead; on a GPU on a stream of their own, beside the step's.

    Parameters
    ----------
    inputs
        Makes them, in the order of the steps.
    device
        Where they are made.
    depth
        See `prefetched` and `depth_of`.
    """
    if device.type != "cuda" or not depth:
        with prefetched(inputs, depth) as ahead:
            yield ahead
        return
    with prefetched(_on_own_stream(inputs, device), depth) as ahead:
        yield (_handed_over(item, ready, device) for item, ready in ahead)


def _on_own_stream(
    inputs: Iterator[StepInputs], device: torch.device
) -> Iterator[tuple[StepInputs, torch.cuda.Event]]:
    stream = torch.cuda.Stream(device)
    while True:
        # Not around the `yield`: what stream is current belongs to the thread.
        with torch.cuda.stream(stream):
            item = next(inputs, None)
            if item is None:
                return
            ready = torch.cuda.Event()
            ready.record(stream)
        yield item, ready


def _handed_over(item: StepInputs, ready: torch.cuda.Event, device: torch.device) -> StepInputs:
    """Make the step's stream wait for the inputs, and keep their memory until it has read them."""
    stream = torch.cuda.current_stream(device)
    stream.wait_event(ready)
    for tensor in item.tensors():
        if tensor.device.type == "cuda":
            tensor.record_stream(stream)
    return item
