"""README's picture: what the model that comes with the package answers, among `docs/photographs`.

In the project's folder: uv run python docs/query_picture.py
"""

from __future__ import annotations

from pathlib import Path

from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont, ImageOps

from vsepp.apps.query import Hit, index_pictures

DOCS = Path(__file__).parent
PHOTOGRAPHS = DOCS / "photographs"
PICTURE = DOCS / "_static/query.jpg"
SENTENCE = "a man takes a photograph"
ANSWERS = 4
SIDE, GAP, LINES = 300, 16, 110  # pixels: of a photograph's frame, between frames, and of the text below them


def answers() -> list[Hit]:
    """The nearest photographs, best first."""
    return index_pictures("flickr8k", PHOTOGRAPHS).images_for(SENTENCE, ANSWERS)


def drawn(hits: list[Hit]) -> Image.Image:
    """Photographs side by side, each above its rank, score and file name."""
    sheet = Image.new("RGB", (GAP + len(hits) * (SIDE + GAP), GAP + SIDE + LINES), "white")
    pen = ImageDraw.Draw(sheet)
    large, small = (ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size) for size in (44, 28))
    for number, hit in enumerate(hits):
        left, below = GAP + number * (SIDE + GAP), GAP + SIDE
        with Image.open(PHOTOGRAPHS / hit.file_name) as photograph:
            sheet.paste(
                ImageOps.fit(photograph.convert("RGB"), (SIDE, SIDE), centering=(0.5, 0.2)), (left, GAP)
            )
        pen.text((left, below + 6), f"{hit.rank}", "black", large)
        pen.text((left + SIDE, below + 6), f"{hit.score:.3f}", "black", large, anchor="ra")
        pen.text((left, below + 62), hit.file_name, "#444444", small)
    return sheet


if __name__ == "__main__":
    drawn(answers()).save(PICTURE, quality=90, subsampling=0)
    print(PICTURE)
