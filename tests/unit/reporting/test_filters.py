from __future__ import annotations

import doctest

import pytest

from vsepp.base.errors import VseppError
from vsepp.reporting import filters


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(filters).failed == 0


def test_metrics_have_the_papers_names_and_directions():
    assert [filters.metric_name(name) for name in ("r1", "i2t_r10", "t2i_medr")] == ["R@1", "R@10", "Med r"]
    assert filters.lower_is_better("t2i_medr")
    assert not filters.lower_is_better("t2i_r10")
    with pytest.raises(VseppError, match="r7"):
        filters.metric_name("i2t_r7")


def test_commits_are_short_and_marked_when_dirty():
    assert filters.commit("0123456789abcdef", False) == "0123456789ab"
    assert filters.commit("0123456789abcdef", True) == "0123456789ab + uncommitted changes"
    assert filters.commit("", None) == "unknown"


def test_listings_read_as_a_sentence():
    found = [filters.listing(items) for items in ([], [1], [1, 2], ("a", "b", "c"))]
    assert found == ["", "1", "1 and 2", "a, b and c"]
    assert filters.listing(["a, x", "b"]) == "a, x; and b"


def test_every_special_character_of_latex_is_escaped_once():
    escaped = filters.tex(r"a\b{c}d$e&f#g_h%i^j~k")
    expected = r"a\textbackslash{}b\{c\}d\$e\&f\#g\_h\%i\textasciicircum{}j\textasciitilde{}k"
    assert escaped == expected
    assert filters.tex(escaped) == expected, "what is LaTeX already stays as it is"
    assert filters.tex("± – × “→”") == r"$\pm$ -- $\times$ ``$\to$''"


def test_a_latex_cell_is_bold_when_best_and_carries_its_mark():
    assert filters.tex_value(1.0, best=True) == r"\textbf{1.0}"
    assert filters.tex_value(69.4, mark="a") == r"69.4\rlap{$^{a}$}"
    assert (filters.tex_value(1.0), filters.tex_value(None)) == ("1.0", "--")
