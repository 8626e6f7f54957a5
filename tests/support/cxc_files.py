"""Files of Crisscrossed Captions, of made-up ratings."""

from vsepp.evaluation.truths.cxc import FILES

OWN = "c2i_original"
"""How the pairs were sampled that are of a caption and its own image."""
_FORMS = {"sits": "ti", "sts": "tt", "sis": "ii"}
_IDS = {"t": "COCO_val2014:sentid:{}", "i": "COCO_val2014_{:012d}.jpg"}


def rated(own=(), sits=(), sts=(), sis=()):
    """Name of each file → its text: pairs of a caption and its own image, and rows of two ids and a rating."""
    rows = {
        "sits": [(*pair, 5.0, OWN) for pair in own] + [(*row, "other") for row in sits],
        "sts": [(*row, "other") for row in sts],
        "sis": [(*row, "other") for row in sis],
    }
    lines = {
        name: [
            ",".join([_IDS[form[0]].format(first), _IDS[form[1]].format(second), str(rating), sampling])
            for first, second, rating, sampling in rows[name]
        ]
        for name, form in _FORMS.items()
    }
    return {FILES[name]: "\n".join(["a,b,agg_score,sampling_method", *lines[name]]) for name in _FORMS}


def write_rated(folder, **pairs):
    """Role → file, as `rated` makes them."""
    for name, text in rated(**pairs).items():
        (folder / name).write_text(text)
    return {role: folder / name for role, name in FILES.items()}
