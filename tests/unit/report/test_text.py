"""Words, numbers and LaTeX of reports."""

from __future__ import annotations

import doctest

from vsepp.report import text


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(text).failed == 0


def test_metrics_have_the_papers_names_and_directions():
    assert [text.metric_name(name) for name in ("r1", "i2t_r10", "t2i_medr")] == ["R@1", "R@10", "Med r"]
    assert text.lower_is_better("t2i_medr")
    assert not text.lower_is_better("t2i_r10")


def test_commits_are_short_and_marked_when_dirty():
    assert text.commit("0123456789abcdef", False) == "0123456789ab"
    assert text.commit("0123456789abcdef", True) == "0123456789ab + uncommitted changes"
    assert text.commit("", None) == "unknown"


def test_listings_read_as_a_sentence():
    listings = [text.listing(items) for items in ([], [1], [1, 2], ("a", "b", "c"))]
    assert listings == ["", "1", "1 and 2", "a, b and c"]
    assert text.listing(["a, x", "b"]) == "a, x; and b"


def test_every_special_character_of_latex_is_escaped_once():
    escaped = text.tex(r"a\b{c}d$e&f#g_h%i^j~k")
    expected = r"a\textbackslash{}b\{c\}d\$e\&f\#g\_h\%i\textasciicircum{}j\textasciitilde{}k"
    assert escaped == expected
    assert text.tex(escaped) == expected, "what is LaTeX already stays as it is"
    assert text.tex("± – × “→”") == r"$\pm$ -- $\times$ ``$\to$''"
