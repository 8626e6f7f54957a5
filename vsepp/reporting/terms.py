"""Words of the field that a page explains: a tooltip where one stands, and all of them in a list at its end."""

from __future__ import annotations

import re
from html import escape

from markupsafe import Markup

TERMS = {
    "1C": "one crop of each image, its centre",
    "10C": "ten crops of each image, whose features are averaged",
    "RC": "a random crop for each caption and epoch",
    "rV": "restval: images of the validation set that are added to the training set",
    "MH": "Max of Hinges, the loss that takes the hardest negative alone",
    "SH": "Sum of Hinges, the loss that takes all negatives of the batch",
    "VSE0": "inner product, trained with the SH loss",
    "VSE++": "inner product, trained with the MH loss",
    "Order0": "order similarity, trained with the SH loss",
    "Order++": "order similarity, trained with the MH loss",
    "R@K": "per cent of queries with a right item among the first K",
    "Med r": "median rank of the first right item",
    "rsum": "sum of R@1, R@5 and R@10 of both directions",
    "caption retrieval": "an image seeks its captions (image→text)",
    "image retrieval": "a caption seeks its image (text→image)",
}
"""Word → what it means; docs/glossary.md says more."""
_SAID = {text.casefold(): meaning for text, meaning in TERMS.items()}
_WORDS = [re.escape(word) for word in sorted(TERMS, key=len, reverse=True) if word != "R@K"]
_FOUND = re.compile(rf"(?<!\w)(?:R@\d+|{'|'.join(_WORDS)}|(?:Caption|Image) retrieval)(?!\w)")


def glossed(text: str) -> Markup:
    """A text for a page, escaped, with tooltips on words of the field.

    >>> glossed("With 1C & MH")
    Markup('With <abbr title="one crop of each image, its centre">1C</abbr> &amp; <abbr title="Max of Hinges, the loss \
that takes the hardest negative alone">MH</abbr>')
    """
    parts, end = [], 0
    for found in _FOUND.finditer(text):
        word = found[0]
        meaning = _SAID.get(word.casefold(), TERMS["R@K"])
        parts += [escape(text[end : found.start()]), f'<abbr title="{escape(meaning)}">{escape(word)}</abbr>']
        end = found.end()
    return Markup("".join([*parts, escape(text[end:])]))
