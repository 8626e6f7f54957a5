import threading
import time

import pytest
import torch
from processes import wait_until

from vsepp.runtime.prefetch import THREAD, prefetched

CPU = torch.device("cpu")


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD)]


@pytest.mark.parametrize("depth", [0, 1, 2, 50])
def test_all_items_come_in_their_order(depth):
    for count in (30, 0):
        with prefetched(iter(range(count)), depth, CPU) as items:
            assert list(items) == list(range(count))
    assert not threads()


@pytest.mark.parametrize("depth", [1, 3])
def test_so_many_items_are_made_ahead_and_no_more(depth):
    made = []
    source = (made.append(number) or number for number in range(20))
    with prefetched(source, depth, CPU) as items:
        for taken in range(1, 5):
            next(items)
            expected = taken + depth
            wait_until(lambda: len(made) >= expected)  # noqa: B023
            time.sleep(0.02)
            assert len(made) == expected


@pytest.mark.parametrize("depth", [0, 2])
def test_what_making_an_item_raises_is_raised_where_it_would_have_come(depth):
    def source():
        yield 1
        yield 2
        raise ValueError("row 7 is missing")

    taken = []
    with pytest.raises(ValueError, match="row 7 is missing"), prefetched(source(), depth, CPU) as items:
        for item in items:
            taken.append(item)
    assert taken == [1, 2]
    assert not threads()


def test_the_thread_ends_when_the_user_fails():
    with pytest.raises(ZeroDivisionError), prefetched(iter(range(10**9)), 2, CPU) as items:
        next(items)
        assert threads()
        raise ZeroDivisionError
    assert not threads()
