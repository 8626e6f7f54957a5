from __future__ import annotations

import re
from pathlib import Path

import pytest

from vsepp.reporting.terms import TERMS, glossed

GLOSSARY = Path(__file__).parents[3] / "docs/glossary.md"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("With RC+rV, VSE++ gains over VSE0.", ["RC", "rV", "VSE++", "VSE0"]),
        ("10C and 1C, R@1 and R@10, Caption retrieval", ["10C", "1C", "R@1", "R@10", "Caption retrieval"]),
        ("SHORT MHz 31C arcs f8k-vsepp-1c", []),
        ("Order++ (MH)", ["Order++", "MH"]),
    ],
)
def test_words_of_the_field_have_tooltips_and_parts_of_words_have_none(text, words):
    found = glossed(text)
    assert re.findall(r'<abbr title="[^"]+">([^<]+)</abbr>', found) == words
    assert found.striptags() == text


def test_what_is_glossed_is_escaped():
    assert glossed("<b> & MH").startswith("&lt;b&gt; &amp; <abbr")


def test_the_glossary_has_each_word():
    text = GLOSSARY.read_text(encoding="utf-8") + (GLOSSARY.parent / "reading.md").read_text(encoding="utf-8")
    assert [word for word in TERMS if word not in text] == []
