"""Karpathy's split files: `dataset_flickr30k.json`, `dataset_flickr8k.json`, `dataset_coco.json`.

A file is `{"images": [...]}`; an image has `filename`, in COCO also `filepath` and `cocoid`, a `split`, the
ids of its captions (`sentids`) and the captions themselves (`sentences`: `raw`, `sentid`, `tokens`, `imgid`).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from vsepp.base.declared import SPLITS
from vsepp.base.errors import VseppError
from vsepp.base.files import shortly
from vsepp.base.spec import CorpusSpec
from vsepp.data.raw_files import Caption, CaptionedImage, RawCorpus, is_id, list_of, read_raw

CITATION = "Karpathy and Fei-Fei, 2015: Deep visual-semantic alignments for generating image descriptions"


def read(spec: CorpusSpec) -> RawCorpus:
    """Read Flickr30K or Flickr8k with Karpathy's splits; roles `images` and `splits`.

    A caption is the `raw` text of a sentence and its id the `sentid`. An image's id is its file name without
    suffix, as in the original release of Flickr8k.

    Raises
    ------
    VseppError
        If the file does not have the layout described above.
    """
    entries = load(spec, f"dataset_{spec.name}.json")
    return RawCorpus([image for image, _ in entries])


def load(spec: CorpusSpec, member: str) -> list[tuple[CaptionedImage, Any]]:
    """Images of the file `splits` with their `cocoid`, in file order.

    Parameters
    ----------
    spec
        The corpus.
    member
        The file's name, if `splits` is a folder or zip archive of several.

    Raises
    ------
    VseppError
        On malformed entries, unknown splits and sentence ids that occur more than once.
    """
    file = read_raw(spec, "splits", member)
    document = file.json(_without_tokens)
    entries = []
    owners: dict[int, str] = {}  # sentence id → its image
    for row, image in enumerate(list_of(document, "images", file.where)):
        where = f"{file.where}: images[{row}]"
        if fault := _fault(image):
            raise VseppError(f"{where}: {fault}; fetch the file again, or fix this entry")
        entry = _captioned(image, where, f"{file.where}: sentid")
        if entry.split not in SPLITS:
            raise VseppError(
                f"{where}: got split {shortly(entry.split)}; expected one of {', '.join(SPLITS)}"
            )
        for sentid, _ in entry.captions:
            if sentid in owners:
                raise VseppError(
                    f"{where}: sentid {sentid} is there twice, of {shortly(owners[sentid])} too; each caption must have an id of its own"
                )
            owners[sentid] = entry.path
        entries.append((entry, image.get("cocoid")))
    return entries


def _without_tokens(value: dict[str, Any]) -> dict[str, Any]:
    # Captions are tokenised here; Karpathy's own tokens would take most of the memory of COCO's file.
    value.pop("tokens", None)
    return value


def _fault(image: Any) -> str | None:
    """What is wrong with the structure of an entry."""
    if not isinstance(image, dict):
        return f"expected an object, found {shortly(image)}"
    for key in ("filename", "split"):
        if not isinstance(image.get(key), str) or not image[key]:
            return f"expected text under {key!r}, found {shortly(image.get(key))}"
    if not isinstance(image.get("filepath", ""), str):
        return f"expected text under 'filepath', found {shortly(image['filepath'])}"
    sentences = image.get("sentences", [])
    if not isinstance(sentences, list) or not all(isinstance(sentence, dict) for sentence in sentences):
        return f"expected a list of objects under 'sentences', found {shortly(sentences)}"
    said = [sentence.get("sentid") for sentence in sentences]
    sentids = image.get("sentids", said)
    if not isinstance(sentids, list):
        return f"expected a list under 'sentids', found {shortly(sentids)}"
    if wrong := [sentid for sentid in [*sentids, *said] if not is_id(sentid)]:
        return f"sentence ids must be whole numbers from 0, of at most 63 bits; found {shortly(wrong[0])}"
    if sorted(said) != sorted(sentids):
        return (
            f"'sentids' and 'sentences' disagree about {shortly(sorted(set(said) ^ set(sentids)) or sentids)}"
        )
    return None


def _captioned(image: dict[str, Any], listed_in: str, captions_in: str) -> CaptionedImage:
    sentences = image.get("sentences", [])
    raw = {sentence["sentid"]: sentence.get("raw") for sentence in sentences}
    sentids = image.get("sentids", [sentence["sentid"] for sentence in sentences])
    return CaptionedImage(
        image_id=PurePosixPath(image["filename"]).stem,
        path=(PurePosixPath(image.get("filepath", "")) / image["filename"]).as_posix(),
        container="images",
        split=image["split"],
        captions=tuple(Caption(sentid, raw[sentid]) for sentid in sentids),
        listed_in=listed_in,
        captions_in=captions_in,
    )
