"""What a page of `docs/` shows to be written and called."""

import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page):
    """Indented and fenced blocks of a page's text, without their indentation."""
    matches = re.findall(r"^```(?:python|toml)\n((?:.*\n)*?)```|((?:^(?: {4}.*)?\n)+)", page, re.MULTILINE)
    texts = [textwrap.dedent(fenced or indented).strip() for fenced, indented in matches]
    return [text for text in texts if text]


def block(texts, start):
    """The only block that begins so."""
    (text,) = [text for text in texts if text.startswith(start)]
    return text


def squared_hinges():
    """The loss that the page about objectives adds."""
    return block(blocks((DOCS / "extending.md").read_text(encoding="utf-8")), '"""Squared hinges')
