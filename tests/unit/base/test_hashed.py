"""Uniform numbers of captions."""

from __future__ import annotations

from itertools import chain

from vsepp.base import hashed


def test_no_number_of_a_caption_decides_two_things():
    reserved = [value for name, value in vars(hashed).items() if name.isupper() and name != "_GOLDEN"]
    numbers = list(chain.from_iterable([value] if isinstance(value, int) else value for value in reserved))
    assert len(numbers) == len(set(numbers))
