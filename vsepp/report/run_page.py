"""A page per model: how it was trained, how sure its recalls are, what it finds and what it misses."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from vsepp.base.declared import FOLDS
from vsepp.base.manifest import ancestors_of
from vsepp.base.words import bytes_text
from vsepp.evaluation.intervals import image_intervals
from vsepp.report import text
from vsepp.report.answers import Answer, Answers, Item
from vsepp.report.cells import PageCell, head
from vsepp.report.entries import ContextSpec
from vsepp.report.models import MeasuredModel, dirty_steps
from vsepp.report.pairing import in_trouble, known_metrics, of_curriculum, sound, trouble_of
from vsepp.report.plots import STYLE, Plot, looks
from vsepp.report.tables import FilledTable

_EXAMPLES = 3
"""Queries that are shown of each kind, and items that are shown for each query."""


def run_page(
    models: Sequence[MeasuredModel],
    tables: Sequence[FilledTable],
    context: ContextSpec,
    alone: bool,
) -> dict[str, Any]:
    """Gather what a model's page shows, by the names that `run.html.j2` has for it.

    Parameters
    ----------
    models
        Its seeds.
    tables
        Tables of the report; the rows that the model fills are named.
    context
        What all pages of the report share.
    alone
        Whether the report has no other model: then the page has the report's title.
    """
    first, name = models[0], models[0].name
    rows = list(dict.fromkeys(row.id for table in tables for row in table.rows if name in row.models))
    made_by = dict.fromkeys(maker for model in models for maker in model.other_code)
    notes = filter(
        None,
        (
            text.dirty_note(dirty_steps(models)),
            text.other_code_note(made_by),
            text.curriculum_note(of_curriculum(sound(models))),
        ),
    )
    counting = sound(models)
    shown = counting[0]
    with matplotlib.rc_context(fname=STYLE):
        plots = [_curves(counting)] if len(first.epochs) > 1 else []
        plots.append(_rank_figure(counting))
    return {
        "model": name,
        "title": context.title if alone else name,
        "trouble": _trouble(models),
        "rows": f"{text.named('Row', rows)} of the tables." if rows else "",
        "recalls": [_recalls(counting, protocol, alone) for protocol in first.metrics],
        "plots": plots,
        "queries": _queries(shown),
        "examples": _EXAMPLES,
        "of_fold": "the first fold" if next(iter(shown.metrics)) in FOLDS else "all test images",
        "of_seed": text.seeds([shown.seed]),
        "folders": [first.run] if not first.study else [],
        "training": [_training(model) for model in models if model.history_csv],
        "configuration": list(_flat(first.evaluated["spec"]["run"])),
        "ancestors": ancestors_of(shown.evaluated),
        "marks": [f"This model was {note}" for note in notes],
    }


def _trouble(models: Sequence[MeasuredModel]) -> str:
    """Which seeds say nothing of the method, and what is done about them; empty where all are sound."""
    if not (reasons := in_trouble(models)):
        return ""
    remedy = "Left out of all numbers, figures and verdicts"
    if trouble_of(models):
        remedy = "No seed is sound: no verdict rests on this run, and its numbers stand as they are"
    chance = "On validation after the last epoch, or on the test set, it is hardly better than chance."
    return f"{text.troubles(reasons).capitalize()}. {chance} {remedy}."


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """`model.joint_dim` → `1024`: a nested specification, line by line."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _flat(below, f"{name}.{key}".lstrip("."))
    else:
        yield name, text.listing(value) if isinstance(value, list) else str(value)


# --- Tables ------------------------------------------------------------------------------------------------------


def _recalls(models: Sequence[MeasuredModel], protocol: str, alone: bool) -> dict[str, Any]:
    """Recalls of sound seeds, with intervals over the images, and of each seed; as `run_page`."""
    several = len(models) > 1
    heads = [head("Metric"), head("Value", "n"), head("95 % interval", "n")]
    heads += [head(text.seeds([model.seed]), "n") for model in models if several]
    metrics = known_metrics(models, protocol)
    values = np.array([[model.values(protocol, metric) for model in models] for metric in metrics])
    rows = []
    # All metrics see the same resamples, in a seventh of the time.
    for metric, by_seed, ends in zip(
        metrics, values.mean(axis=2), image_intervals(values.mean(axis=1)), strict=True
    ):
        seeds = [PageCell(text.number(value), "n") for value in by_seed if several]
        numbers = PageCell(text.number(by_seed.mean()), "n"), PageCell(text.levels(ends), "n")
        rows.append([head(text.metrics(metric), scope="row"), *numbers, *seeds])
    seeds_words = (
        f"mean over {text.plural(len(models), 'seed')}" if several else "one seed, which settles nothing"
    )
    caption = (
        f"In per cent, with 95 % intervals over the test images (bootstrap); {seeds_words}. R@1 by chance: "
        f"{_chance(models[0], protocol)}; it is not subtracted."
    )
    if matched := text.reranked(models[0].tested(protocol)):
        caption += f" Ranks are {matched}: the best by the embeddings, scored again by the matcher; the rest is tied below."
    kind = "truth" if "truth" in models[0].tested(protocol) else "protocol"
    name = f"Recalls, {kind} {protocol}"
    if alone:
        name = f"Recalls, {text.plural(values.shape[2], 'test image')}"
    return {"name": name, "caption": caption, "heads": heads, "rows": rows}


def _chance(model: MeasuredModel, protocol: str) -> str:
    """R@1 of a ranking by chance, in per cent; under a truth that of each direction, by the numbers of its correct items."""
    test = model.tested(protocol)
    if "truth" not in test:
        return text.share(100 / test["fold_size"])
    words = []
    for metric, gallery in (("i2t_r1", test["n_captions"]), ("t2i_r1", test["n_images"])):
        ranks = model.ranks(protocol)[metric.partition("_")[0]]
        ranked = ranks.sums(ranks.ranks < gallery)  # correct captions that are not ranked stand behind all
        words.append(f"{text.share(100 * float(ranked.mean()) / gallery)} in {text.task(metric).lower()}")
    return text.listing(words)


def _training(model: MeasuredModel) -> list[PageCell]:
    """What a seed's training took, by its manifest, which every history has beside it."""
    assert model.trained
    facts, machine = model.trained["facts"], model.trained["machine"]
    seconds = float(np.median([*model.history("seconds").values()]))
    numbers = (
        model.seed,
        facts["best_epoch"],
        facts["epochs"],
        text.number(seconds),
        text.count(facts["pairs_per_second"]),
        bytes_text(model.trained["peak_memory_bytes"]),
    )
    processor = f", {machine['processor']}" if facts["device"] == "cpu" else ""
    words = facts["device"] + processor, text.commit(*model.trained_by)
    return [*(PageCell(number, "n") for number in numbers), *map(PageCell, words)]


# --- Figures -----------------------------------------------------------------------------------------------------


def _curves(models: Sequence[MeasuredModel]) -> Plot:
    """Loss, and R@1 of both directions on validation, a line per seed."""
    figure = Figure(figsize=(8.4, 2.9))
    figure.subplots_adjust(left=0.08, right=0.99, bottom=0.17, top=0.97, wspace=0.2)
    losses, recalls = figure.subplots(1, 2)
    for model in models:
        loss = model.history("loss")
        losses.plot(list(loss), list(loss.values()), color="C2", linestyle="-", marker="none")
        for look, (direction, title) in zip(looks(), text.DIRECTIONS.items(), strict=False):
            line = model.history(f"{direction}_r1")
            label = title if model is models[0] else None
            spacing = max(1, len(line) // 10)
            recalls.plot(list(line), list(line.values()), **look, markevery=spacing, label=label)
    losses.set(xlabel="Epoch", ylabel="Training loss per query")
    recalls.set(xlabel="Epoch", ylabel=f"Validation {text.unit('i2t_r1')}")
    recalls.legend()
    last = [text.number(list(model.history("rsum").values())[-1]) for model in models]
    alt = f"Training loss and validation R@1 over {text.plural(len(loss), 'epoch')}. rsum after the last: {text.listing(last)}."
    return _plot(figure, "Learning curves", alt)


def _rank_figure(models: Sequence[MeasuredModel]) -> Plot:
    """The share of queries with a right item among the first k, over k."""
    figure = Figure(figsize=(5.6, 2.9))
    figure.subplots_adjust(left=0.12, right=0.98, bottom=0.17, top=0.97)
    protocol, test = next(iter(models[0].metrics.items()))
    axis, halves = figure.subplots(), []
    ks = np.unique(np.geomspace(1, test["fold_size"], 60).astype(int))
    for look, (direction, title) in zip(looks(), text.DIRECTIONS.items(), strict=False):
        ranks = np.concatenate([model.ranks(protocol)[direction].best for model in models])
        shares = [100 * np.mean(ranks < k) for k in ks]
        axis.plot(ks, shares, color=look["color"], linestyle=look["linestyle"], label=title)
        halves.append(f"{title}: half of the queries within the first {int(np.median(ranks)) + 1}")
    axis.set(xscale="log", xlabel="k", ylabel="Queries with rank ≤ k (%)", ylim=(0, 102))
    # Not powers of ten, which would be set as formulas.
    axis.xaxis.set_major_formatter(lambda k, _: text.count(k))
    axis.legend(loc="lower right")
    alt = f"Recall at k over k, protocol {protocol}. {'; '.join(halves)}."
    return _plot(figure, "Distribution of ranks", alt)


def _plot(figure: Figure, name: str, alt: str) -> Plot:
    """A figure inside the page: a run has no files of figures."""
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Plot(name, _data_uri("svg+xml", svg.getvalue()), alt, figure.get_size_inches()[0])


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


# --- Queries -----------------------------------------------------------------------------------------------------


def _queries(model: MeasuredModel) -> dict[str, list[Answer]]:
    """Queries of the first fold: the first queries that find a right item at once, and the queries that find it last."""
    if not model.pictures:
        return {}
    protocol, test = next(iter(model.metrics.items()))
    answers, queries = Answers(model, protocol), dict[str, list[Answer]]()
    if not answers.are_known:
        return {}
    for direction, title in text.DIRECTIONS.items():
        rows, ranks = answers.queries[direction], model.ranks(protocol)[direction].best
        images = rows if direction == "i2t" else answers.tested.caption_to_image[rows]
        places_of_fold = np.flatnonzero((rows >= 0) & (images < test["fold_size"]))
        order = places_of_fold[np.argsort(ranks[places_of_fold], kind="stable")]
        at_once = [place for place in order[:_EXAMPLES] if ranks[place] < 1]
        for heading, places in (("found first", at_once), ("found last", order[::-1][:_EXAMPLES])):
            if len(places):
                queries[f"{title}: {heading}"] = [
                    answers.answer(direction, place, _EXAMPLES) for place in places
                ]
    return queries


def picture_of(item: Item) -> str:
    """An image's picture, as a data URI."""
    return _data_uri("jpeg", item.jpeg)


def ticked(item: Item) -> Markup:
    """A caption, or an image's id, ticked where it is right; a backtick of a caption is no code."""
    image = "image " if item.is_image and not item.jpeg else ""
    return escape(f"{'✓ ' * item.right}{image}{item.words}")
