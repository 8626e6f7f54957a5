"""A page per model: how it was trained, how sure its recalls are, what it finds and what it misses."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from vsepp.base.manifest import ancestors_of
from vsepp.evaluation.metric_list import COMPARED
from vsepp.report import text
from vsepp.report.answers import Answers
from vsepp.report.claims import Verdict, of_the_paper
from vsepp.report.models import MadeBy, Model, by_other_code, dirty_steps, left_out, level, sound, trouble_of
from vsepp.report.plots import STYLE, looks, themed
from vsepp.report.tables import Table
from vsepp.report.text import DIRECTIONS

_EXAMPLES = 3
"""Queries that are shown of each kind, and items that are shown for each query."""


@dataclass(frozen=True)
class Item:
    """An image or a caption on the page."""

    text: str = ""
    picture: str = ""
    """Data URI; empty for a caption."""
    right: bool = False


def run_page(
    model: str,
    records: Sequence[Model],
    verdicts: Sequence[Verdict],
    tables: Sequence[Table],
    other_code: Mapping[str, MadeBy],
) -> dict[str, Any]:
    """Gather what a model's page shows, by the names that `run.html.j2` has for it.

    Parameters
    ----------
    model
        Id of the model.
    records
        Records of its seeds.
    verdicts
        Verdicts on the paper's claims and on comparisons of one's own; verdicts about this model are shown.
    tables
        Tables of the report; the rows that the model fills are named.
    other_code
        Folder of a training or an evaluation that other code than the present one made → who made it.
    """
    first = records[0]
    manifest, trained = first.evaluated, bool(first.history_csv)
    rows = (row for table in tables for row in table.rows)
    about = [verdict for verdict in verdicts if model in verdict.spec.named]
    made_by = dict.fromkeys(maker for record in records for maker in by_other_code(record, other_code))
    with matplotlib.rc_context(fname=STYLE):
        curves = _curves(records) if len(first.epochs) > 1 else Markup("")
        ranks = _rank_figure(records)
    return {
        "model": model,
        "records": records,
        "configuration": list(_flat(manifest["spec"]["run"])),
        "recalls": {protocol: list(_recalls(records, protocol)) for protocol in first.metrics},
        "chance": {protocol: 100 / scores["fold_size"] for protocol, scores in first.metrics.items()},
        "reranked": {protocol: text.reranked(scores) for protocol, scores in first.metrics.items()},
        "trouble": trouble_of(records),
        "left_out": left_out(records),
        "claims": of_the_paper(about),
        "rows": list(dict.fromkeys(row.id for row in rows if model in row.models)),
        "seconds": [np.median([*record.history("seconds").values()]) for record in records if trained],
        # What the first seed was made from.
        "ancestors": ancestors_of(manifest),
        "marks": [
            note for note in (text.dirty_note(dirty_steps(records)), text.other_code_note(made_by)) if note
        ],
        "curves": curves,
        "ranks": ranks,
        "queries": _queries(first) if first.pictures else {},
    }


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """`model.joint_dim` → `1024`: a nested specification, line by line."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _flat(below, f"{name}.{key}".lstrip("."))
    else:
        yield name, text.listing(value) if isinstance(value, list) else str(value)


def _recalls(records: Sequence[Model], protocol: str) -> Iterator[dict[str, Any]]:
    for metric in COMPARED:
        if of := level(sound(records, protocol), protocol, metric):
            by_seed = [record.score(protocol, metric) for record in records]
            yield {"metric": metric, "value": of.mean, "interval": of.images, "by_seed": by_seed}


# --- Figures -----------------------------------------------------------------------------------------------------


def _curves(records: Sequence[Model]) -> Markup:
    """Loss, and R@1 of both directions on validation, a line per seed."""
    figure = Figure(figsize=(8.4, 2.9))
    figure.subplots_adjust(left=0.08, right=0.99, bottom=0.17, top=0.97, wspace=0.2)
    losses, recalls = figure.subplots(1, 2)
    for record in records:
        loss = record.history("loss")
        losses.plot(list(loss), list(loss.values()), color="C2")
        for look, (direction, title) in zip(looks(), DIRECTIONS.items(), strict=False):
            line = record.history(f"{direction}_r1")
            label = title if record is records[0] else None
            every = max(1, len(line) // 10)
            recalls.plot(list(line), list(line.values()), **look, markevery=every, label=label)
    losses.set(xlabel="Epoch", ylabel="Training loss per query")
    recalls.set(xlabel="Epoch", ylabel="Validation R@1 (%)")
    recalls.legend()
    last = [f"{list(record.history('rsum').values())[-1]:.1f}" for record in records]
    alt = f"Training loss and validation R@1 over {len(loss)} epochs. rsum after the last: {text.listing(last)}."
    return _inline(figure, "curves", "Learning curves", alt)


def _rank_figure(records: Sequence[Model]) -> Markup:
    """The share of queries with the right item among the first k, over k."""
    figure = Figure(figsize=(5.6, 2.9))
    figure.subplots_adjust(left=0.12, right=0.98, bottom=0.17, top=0.97)
    protocol, metrics = next(iter(records[0].metrics.items()))
    axis, halves = figure.subplots(), []
    ks = np.unique(np.geomspace(1, metrics["fold_size"], 60).astype(int))
    for colour, dashes, (direction, title) in zip(("C0", "C1"), ("-", "--"), DIRECTIONS.items(), strict=True):
        ranks = np.concatenate([getattr(record.ranks(protocol), direction) for record in records])
        shares = [100 * np.mean(ranks < k) for k in ks]
        axis.plot(ks, shares, color=colour, linestyle=dashes, label=title)
        halves.append(f"{title}: half of the queries within the first {int(np.median(ranks)) + 1}")
    axis.set(xscale="log", xlabel="k", ylabel="Queries with rank ≤ k (%)", ylim=(0, 102))
    # Not powers of ten, which would be set as formulas.
    axis.xaxis.set_major_formatter(lambda k, _: f"{k:,.0f}")
    axis.legend(loc="lower right")
    alt = f"Recall at k over k, protocol {protocol}. {'; '.join(halves)}."
    return _inline(figure, "ranks", "Distribution of ranks", alt)


def _inline(figure: Figure, name: str, title: str, alt: str) -> Markup:
    """A figure as part of a page."""
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return themed(svg.getvalue(), name, title, alt)


# --- Queries -----------------------------------------------------------------------------------------------------


def _queries(record: Model) -> dict[str, list[dict[str, Any]]]:
    """Queries of the first fold: the first queries that find the right item at once, and the queries that find it last.

    Each has its `item`, what the model puts first (`found`), and the `rank` of the right item, from 1.
    """
    answers = Answers(record)
    protocol, metrics = next(iter(record.metrics.items()))
    ranks, owner = record.ranks(protocol), record.caption_images(protocol)
    fold, texts = slice(0, metrics["fold_size"]), answers.pictures.texts

    def picture(row: int, right: bool = False) -> Item:
        data = base64.b64encode(answers.pictures.jpeg(row)).decode()
        name = str(answers.pictures.images[row]["id"])
        return Item(name if data else f"image {name}", data and f"data:image/jpeg;base64,{data}", right)

    def query(direction: str, row: int) -> dict[str, Any]:
        best = answers.ranked(direction, row, fold, protocol)[:_EXAMPLES]
        if direction == "i2t":
            item = picture(row)
            found = [Item(texts[caption], right=owner[caption] == row) for caption in best]
        else:
            item = Item(texts[row])
            found = [picture(image, image == owner[row]) for image in best]
        return {"item": item, "found": found, "rank": getattr(ranks, direction)[row] + 1}

    queries = {}
    for direction, images in (("i2t", np.arange(len(ranks.i2t))), ("t2i", owner)):
        title, in_fold = DIRECTIONS[direction], np.flatnonzero(images < fold.stop)
        of_queries = getattr(ranks, direction)
        order = in_fold[np.argsort(of_queries[in_fold], kind="stable")]
        at_once = [row for row in order[:_EXAMPLES] if of_queries[row] < 1]
        queries[f"{title}: found first"] = [query(direction, row) for row in at_once]
        queries[f"{title}: found last"] = [query(direction, row) for row in order[::-1][:_EXAMPLES]]
    return queries
