"""Submissions: what a model is and how it ranks a test set, a folder each, small enough to be committed.

| file | content |
|---|---|
| `card.yaml` | a `Card` |
| `seed-<n>.npz`, or `ranks.npz` of a model without seeds | arrays of an evaluation's `ranks.npz` that give all others: twice each rank; \
each row as the difference to the row before |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import yaml
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from vsepp.data.arrays import read_arrays
from vsepp.declared import STRICT, TASKS, Count, Sha256, mistakes_of
from vsepp.errors import VseppError, cut
from vsepp.evaluation.intervals import per_image
from vsepp.evaluation.protocols import PROTOCOLS
from vsepp.evaluation.ranks import own_ranks
from vsepp.evaluation.truth import checked_captions, own_captions
from vsepp.provenance.digests import file_digest
from vsepp.provenance.manifest import parent_of
from vsepp.provenance.studies import Kept, smallest
from vsepp.reporting.ranked import seed_of
from vsepp.reporting.records import TEST_IMAGES, Ranked, read_ranks
from vsepp.runtime.files import write_arrays, write_text
from vsepp.spec import to_dict
from vsepp.user_files import reading, shortly, text_of
from vsepp.user_yaml import yaml_of

CARD = "card.yaml"
_LARGEST_CARD = 1 << 20
_ROWS = ("_caption_images", "_starts", "_images")

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Known = Annotated[
    Literal["yes", "no", "unknown"],
    # YAML reads yes and no as true and false.
    BeforeValidator(lambda value: "yes" if value is True else "no" if value is False else value),
]


@dataclass(frozen=True, config=STRICT)
class TestSet:
    """What a model ranked under a protocol of own captions, or under another truth."""

    digest: Sha256
    """Digest of queries, gallery and correct items. Other truths name items by ids. Own captions name rows in the order of the
    data set's files: the digest says which captions an image has, and the data set's name which photograph it is."""
    n_images: Annotated[int, Field(ge=2)]
    n_captions: Count
    fold_size: Count
    """Images that are ranked among themselves."""


@dataclass(frozen=True, config=STRICT)
class Card:
    """What is said of a model, under the keys of MTEB's ModelMeta where it has them."""

    name: Text
    """As the page shows it; no two submissions share one."""
    revision: Text
    """Commit or version of weights and code."""
    reference: Annotated[str, Field(pattern=r"^https?://\S+$", max_length=2000)]
    """Address of a paper, a repository or a model's page."""
    license: Text
    """Licence of the weights."""
    open_weights: bool
    """Whether anybody can get them."""
    n_parameters: Count | None
    """`null`: not published."""
    embed_dim: Count | None
    """Dimension of the joint space; `null`: not published, or there is none."""
    similarity: Text
    training_datasets: tuple[Text, ...]
    """Training data sets of the model, the pretraining sets of both towers among them."""
    test_captions_in_training: Known
    """Whether training data contain captions of the test set."""
    test_images_in_training: Known
    """Whether training data contain images of the test set."""
    data_set: Text
    """Data set that the test set belongs to."""
    command: Text
    """Repeats the row: makes or fetches the model, and ranks the test set."""
    truths: Annotated[dict[Annotated[str, Field(pattern=r"^\w{1,20}$")], TestSet], Field(min_length=1)]
    """Protocol of own captions, or another truth → what was ranked."""
    files: dict[Annotated[str, Field(pattern=r"^(ranks|seed-(0|[1-9][0-9]{0,8}))\.npz$")], Sha256]
    """File of ranks → its digest."""


class Submission(NamedTuple):
    """A submission that was checked."""

    folder: Path
    card: Card
    models: list[Ranked]
    """One a seed."""


def filled_in(models: Sequence[Kept]) -> dict[str, Any]:
    """Keys of a card → what metrics and manifests of a model's seeds say."""
    card: dict[str, Any] = {"similarity": next(iter(models[0].metrics.values()))["similarity"]}
    if all(runs := [parent_of(kept.evaluated, "run") for kept in models]):
        card["revision"] = ", ".join(dict.fromkeys(str(run["commit"])[:12] for run in runs))
        card["embed_dim"] = models[0].evaluated["spec"]["run"]["model"]["joint_dim"]
    if models[0].trained:
        card["n_parameters"] = models[0].trained["facts"].get("parameters")
    return card


def write_submission(folder: Path, given: Mapping[str, Any], models: Sequence[Kept]) -> Submission:
    """Write a submission of a model's seeds and check it; its card has the given keys, the ranked test sets and the files.

    Raises
    ------
    VseppError
        If the card has mistakes, ranks of all correct items were not kept, or seeds were evaluated differently.
    """
    truths = [name for name in models[0].metrics if all(name in kept.metrics for kept in models)]
    seeds = [seed_of(Ranked(kept)) for kept in models]
    files = ["ranks.npz" if seed is None else f"seed-{seed}.npz" for seed in seeds]
    if len(set(files)) < len(files):
        raise VseppError(f"{models[0].where}: a seed is given twice, or none named; give one folder a seed")
    arrays = [_packed(kept, truths) for kept in models]
    card = {**given, "truths": {name: _test_set(models[0], name) for name in truths}, "files": {}}
    _card(card, "the card")  # before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    for name, packed in zip(files, arrays, strict=True):
        write_arrays(folder / name, compressed=True, **packed)
        card["files"][name] = file_digest(folder / name)
    text = yaml.safe_dump(to_dict(_card(card, "the card")), sort_keys=False, allow_unicode=True, width=110)
    write_text(folder / CARD, text)
    return read_submission(folder)


def _test_set(kept: Kept, truth: str) -> dict[str, Any]:
    metrics, owner = kept.metrics[truth], kept.arrays.get(f"{truth}_caption_images")
    digest = metrics["truth"] if owner is None else own_captions(owner).digest
    return {"digest": digest, **{key: metrics[key] for key in TEST_IMAGES}}


def _parts(truth: str) -> list[str]:
    """Arrays of a protocol or truth."""
    if truth in PROTOCOLS:
        return [f"{truth}_{part}" for part in ("t2i", "i2t_captions", "caption_images")]
    return [f"{truth}_{task}{part}" for task in TASKS for part in ("", "_starts", "_images")]


def _packed(kept: Kept, truths: Sequence[str]) -> dict[str, np.ndarray]:
    arrays = {name: kept.arrays[name] for truth in truths for name in _parts(truth) if name in kept.arrays}
    _require_whole(arrays, truths, f"{kept.where}: ranks of all correct items were not kept, evaluate again")
    return {
        name: smallest(np.diff(values, prepend=0) if name.endswith(_ROWS) else values * 2)
        for name, values in arrays.items()
    }


def _require_whole(arrays: Mapping[str, np.ndarray], truths: Iterable[str], where: str) -> None:
    """Refuse ranks with missing arrays; ranks among captions and ranks among images may be missing."""
    names = [name for truth in truths for name in _parts(truth) if "_t2t" not in name and "_i2i" not in name]
    if missing := [name for name in names if name not in arrays]:
        raise VseppError(f"{where}: has no {', '.join(missing)}")


def read_card(file: Path) -> dict[str, Any]:
    """Keys and values of a card, or of a part of a card."""
    values = yaml_of(text_of(file, "the card of a submission", _LARGEST_CARD), str(file))
    if not isinstance(values, dict):
        raise VseppError(f"{file}: expected the card of a submission, keys and values, got {shortly(values)}")
    return values


def read_submission(folder: Path) -> Submission:
    """Read a submission and check it.

    Raises
    ------
    VseppError
        If the card has mistakes, files are missing or differ from the files of the card, or ranks are impossible.
    """
    card = _card(read_card(folder / CARD), str(folder / CARD))
    there = {path.name for path in folder.glob("*.npz")}
    if there != card.files.keys() or not there:
        raise VseppError(
            f"{folder}: has the files {', '.join(sorted(there)) or 'none'}, but by its card "
            f"{', '.join(card.files) or 'none'}; submit the model again"
        )
    names = sorted(card.files, key=lambda name: (len(name), name))
    models = [_read_seed(folder / name, card) for name in names]
    for name, rows in models[0].kept.arrays.items():
        for model in models if name.endswith(_ROWS) else ():
            if not np.array_equal(rows, model.kept.arrays.get(name, ())):
                raise VseppError(f"{model.kept.where}: {name} differs from that of {models[0].kept.where}")
    return Submission(folder, card, models)


def _card(values: Mapping[str, Any], where: str) -> Card:
    """A card, all mistakes in it told at once."""
    with reading(where, "a card, whose keys are texts"):
        text = json.dumps(values, default=str)
    try:
        return TypeAdapter(Card).validate_json(text, strict=True)
    except ValidationError as error:
        # A missing key may be there under a wrong name, so it is told last.
        found = sorted(mistakes_of(error, Card), key=lambda mistake: mistake[1] == "missing")
        lines = [cut(f"{key}: {what}") for key, what in found]
        raise VseppError("\n  - ".join([f"{where}: {len(lines)} mistakes:", *lines])) from error


def _read_seed(file: Path, card: Card) -> Ranked:
    """One seed, as an evaluation keeps it."""
    packed = read_arrays(file, [name for truth in card.truths for name in _parts(truth)], "an .npz of ranks")
    if (digest := file_digest(file)) != card.files[file.name]:
        raise VseppError(
            f"{file}: has digest {digest[:12]}, but {card.files[file.name][:12]} by its card; submit the model again"
        )
    _require_whole(packed, card.truths, str(file))
    for name, array in packed.items():
        if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
            raise VseppError(f"{file}: {name}: expected whole numbers (n,), got {array.dtype} {array.shape}")
    arrays = {
        name: np.cumsum(array.astype(np.int64)) if name.endswith(_ROWS) else array / 2
        for name, array in packed.items()
    }
    metrics: dict[str, dict[str, Any]] = {}
    model = Ranked(Kept(str(file.with_suffix("")), {}, None, metrics, "", arrays))
    with reading(file, "ranks of the queries that the card names"):
        for truth, test in card.truths.items():
            _check(arrays, truth, test)
            values = per_image(*read_ranks(model, truth), "rsum", test.fold_size)
            found = {"protocol": truth, "similarity": card.similarity, "rsum": float(values.mean())}
            found |= {key: getattr(test, key) for key in TEST_IMAGES}
            found |= {"folds": test.n_images // test.fold_size}
            metrics[truth] = found if truth in PROTOCOLS else {**found, "truth": test.digest}
    return model


def _check(arrays: dict[str, np.ndarray], truth: str, test: TestSet) -> None:
    """Refuse ranks and rows that are impossible for a test set; for own captions add the rank of each image's best caption."""
    # A correct caption that is not ranked stands behind all ranked captions.
    highest = {"i": test.n_images, "t": test.n_captions}
    if truth in PROTOCOLS:
        t2i, i2t, owner = (arrays[name] for name in _parts(truth))
        # An image has a caption: no card makes this allocate more than the file has.
        fit = test.n_images <= len(owner) == len(t2i) == len(i2t) and test.n_images % test.fold_size == 0
        if not fit:
            raise VseppError(f"{truth}: {len(t2i)} and {len(i2t)} ranks of {len(owner)} captions do not fit")
        owner = checked_captions(owner, test.n_captions, test.n_images)
        if (digest := own_captions(owner).digest) != test.digest:
            raise VseppError(f"captions of the images have digest {digest[:12]}, not {test.digest[:12]}")
        highest = {"i": test.fold_size - 1, "t": np.bincount(owner // test.fold_size).max() - 1}
        arrays[f"{truth}_i2t"] = own_ranks(t2i, i2t, owner).i2t
    for name in _parts(truth):
        if name not in arrays or name.endswith(("_starts", "_caption_images")):
            continue
        most = test.n_images - 1 if name.endswith("_images") else highest[name.removeprefix(f"{truth}_")[2]]
        outside = np.flatnonzero((arrays[name] < 0) | (arrays[name] > most))
        if len(outside):
            raise VseppError(
                f"{name}: row {outside[0]} is {arrays[name][outside[0]]:g}, expected 0 to {most}"
            )
