"""The only place of the report where intervals, metrics, seeds and counts become words, and words HTML or LaTeX; over `vsepp.base.words`."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from vsepp.base import declared
from vsepp.base.words import count, p_text, plural, rounded  # noqa: F401
from vsepp.evaluation.metrics import METRICS

if TYPE_CHECKING:
    from vsepp.evaluation.intervals import Interval

TASKS: dict[str, str] = {
    **{task: name.capitalize() for task, name in declared.TASKS.items()},
    "sts": "STS, two captions",
    "sis": "SIS, two images",
    "sits": "SITS, image and caption",
}
"""What metrics can be of, as a heading names it: retrieval tasks, and a truth's correlations with ratings."""
DIRECTIONS: dict[str, str] = {task: TASKS[task] for task in ("i2t", "t2i")}
"""Direction of a query → the field's name for it: image→text is caption retrieval."""

MISSING = "–"
MARK = "†"
"""Sign at numbers: no commit holds the code or the parameters behind them."""

OF_CURRICULUM = "‡"
"""Sign at numbers: the weights are of an epoch that SH trained, before the loss that the run is named after."""
MARKS = MARK, OF_CURRICULUM

_TEX = str.maketrans(
    {character: rf"\{character}" for character in "{}$&#_%"}
    | {
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "–": "--",
        "—": "---",
        "−": r"$-$",
        "±": r"$\pm$",
        "✓": r"$\surd$",
        "×": r"$\times$",
        "→": r"$\to$",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
        "…": r"\ldots{}",
        "†": r"\dag{}",
        "‡": r"\ddag{}",
        "∞": r"$\infty$",
        "·": r"$\cdot$",
        "“": "``",
        "”": "''",
        "‘": "`",
        "’": "'",
        "\u00a0": "~",
    }
)


_CODE = re.compile("`([^`]+)`")  # a span of code in a sentence of `params/`


class Tex(str):
    """Text that is LaTeX already and must not be escaped again."""


# --- Numbers -----------------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """A recall or a rank with one decimal; a dash where there is none.

    >>> number(64.62), number(-0.04), number(None)
    ('64.6', '0.0', '–')
    """
    return MISSING if value is None else rounded(value)


def deviation(sd: float | None) -> str:
    """A standard deviation with its sign in front; nothing where there is only one seed.

    >>> deviation(0.37), deviation(None)
    ('± 0.4', '')
    """
    return "" if sd is None else f"± {number(sd)}"


def signed(value: float | None) -> str:
    """A difference with its sign; a dash where there is none.

    >>> signed(3.14), signed(-0.2), signed(-0.04), signed(None)
    ('+3.1', '−0.2', '0.0', '–')
    """
    return MISSING if value is None else rounded(value, sign="+")


def epoch(value: float | None) -> str:
    """Where a curve passes another one; a dash where there is none.

    >>> epoch(7.33), epoch(None)
    ('epoch 7.3', '–')
    """
    return MISSING if value is None else f"epoch {number(value)}"


def interval(value: Interval | None) -> str:
    """An interval of differences; nothing where there is none.

    >>> from vsepp.evaluation.intervals import Interval
    >>> interval(Interval(-0.21, 3.0)), interval(None)
    ('[−0.2, +3.0]', '')
    """
    return "" if value is None else f"[{signed(value.low)}, {signed(value.high)}]"


def levels(value: Interval | None) -> str:
    """An interval of recalls; nothing where there is none."""
    return "" if value is None else f"[{number(value.low)}, {number(value.high)}]"


def slug(text: str) -> str:
    """A text as a name of a class.

    >>> slug("inconclusive (one seed)")
    'inconclusive-one-seed'
    """
    return "-".join(re.findall(r"\w+", text))


def p_value(value: float | None) -> str:
    """A p value as people write it.

    >>> p_value(0.00002), p_value(0.0312), p_value(0.0498), p_value(None)
    ('< .001', '.031', '.0498', '')
    """
    return "" if value is None else p_text(value)


def rank(value: float) -> str:
    """A rank of one query, which ties may have halved.

    >>> rank(3.0), rank(2.5)
    ('3', '2.5')
    """
    return f"{value:g}"


def share(value: float) -> str:
    """A small share in per cent, with two digits.

    >>> share(0.02), share(0.5), share(2.123)
    ('0.02', '0.5', '2.1')
    """
    return f"{value:.2g}"


# --- Names -------------------------------------------------------------------------------------------------------


def metric_name(metric: str) -> str:
    """A metric without what it is of, as the paper's column heads have it.

    >>> metric_name("r10"), metric_name("i2t_r10"), metric_name("rsum")
    ('R@10', 'R@10', 'rsum')
    """
    name = metric.rpartition("_")[2]
    if name in ("rsum", "spearman"):
        return name.replace("spearman", "Spearman")
    return METRICS[name].name


def task(metric: str) -> str:
    """What a metric is of, as a heading; nothing for rsum, which is of both directions.

    >>> task("i2t_r1"), task("rsum")
    ('Caption retrieval', '')
    """
    return TASKS.get(metric.rpartition("_")[0], "")


def metrics(*names: str) -> str:
    """Metrics in a sentence, neighbours of one task together.

    >>> metrics("i2t_r1", "i2t_r5", "rsum")
    'R@1 and R@5 of caption retrieval and rsum'
    """
    parts = []
    for title, group in groupby(names, task):
        words = listing(map(metric_name, group))
        noun = title if title.split(",")[0].isupper() else title.lower()  # STS stays
        parts.append(f"{words} of {noun}" if title else words)
    return listing(parts)


def unit(metric: str) -> str:
    """A metric with its unit, for an axis.

    >>> unit("i2t_r1"), unit("t2i_medr"), unit("rsum")
    ('R@1 (%)', 'Med r', 'rsum')
    """
    in_per_cent = task(metric) and not lower_is_better(metric)
    return metric_name(metric) + (" (%)" if in_per_cent else "")


def lower_is_better(metric: str) -> bool:
    """Whether a small value is a good one (ranks), not a large one (recalls)."""
    name = metric.rpartition("_")[2]
    return name in METRICS and METRICS[name].lower_is_better


def numbered(name: str) -> str:
    """What the paper calls a table or a figure; empty for one's own.

    >>> numbered("table1"), numbered("figure2a"), numbered("margins")
    ('Table 1', 'Figure 2a', '')
    """
    match = re.fullmatch(r"(table|figure)(\d.*)", name)
    return f"{match[1].capitalize()} {match[2]}" if match else ""


def reranked(metrics: Mapping[str, Any]) -> str:
    """How many items of each query a matcher scored again, of how many images; nothing where embeddings alone ranked.

    >>> reranked({"reranked": 32, "fold_size": 200}), reranked({"fold_size": 200})
    ('re-ranked, 32 of 200', '')
    """
    k = metrics.get("reranked")
    return f"re-ranked, {count(k)} of {count(metrics['fold_size'])}" if k else ""


def dirty_note(steps: Iterable[str]) -> str:
    """What `MARK` means, for the steps that it stands for; empty without steps."""
    if not (named := listing(steps)):
        return ""
    return f"partly made while files of code or parameters were uncommitted ({named}): the commit in their records may hold other ones."


def curriculum_note(seeds_of: Mapping[str, Sequence[Any]]) -> str:
    """What `OF_CURRICULUM` means, from the epochs that SH trains and the seeds whose weights are of one of them; empty without.

    >>> curriculum_note({"epochs 1 to 2": [0]})
    'evaluated as it was in epochs 1 to 2 (seed 0), which have SH: the best on validation came before the loss that it is named after.'
    """
    if not seeds_of:
        return ""
    where = listing(f"{epochs} ({seeds(numbers)})" for epochs, numbers in seeds_of.items())
    return f"evaluated as it was in {where}, which have SH: the best on validation came before the loss that it is named after."


def other_code_note(makers: Iterable[tuple[str, bool]]) -> str:
    """Which commits, with other code than the present one, made a model; empty without commits."""
    commits = [commit(*maker) for maker in makers]
    return f"made by other code, commit {listing(commits)}." if commits else ""


def commit(sha: str, dirty: bool | None) -> str:
    """Twelve characters of a commit, and a mark where files differed from it."""
    return (sha[:12] or "unknown") + (" + uncommitted changes" if dirty else "")


def letter(place: int) -> str:
    """The letter of a note.

    >>> letter(0), letter(25), letter(27)
    ('a', 'z', 'bb')
    """
    return string.ascii_lowercase[place % 26] * (1 + place // 26)


def named(noun: str, names: Sequence[Any]) -> str:
    """Things by their names.

    >>> named("row", ["1.1", "1.2"]), named("row", ["1.1"])
    ('rows 1.1 and 1.2', 'row 1.1')
    """
    return f"{noun}{'s' * (len(names) != 1)} {listing(names)}"


def seeds(numbers: Iterable[Any]) -> str:
    """Seeds by their numbers, in order.

    >>> seeds([10, 2])
    'seeds 2 and 10'
    """
    return named("seed", sorted(numbers))


def troubles(seeds_of: Mapping[str, Sequence[Any]]) -> str:
    """Why scores say nothing of the method, with the seeds; a model without a seed has none.

    >>> troubles({"collapsed": [2, 0], "ranks like chance": [1]})
    'collapsed (seeds 0 and 2) and ranks like chance (seed 1)'
    """
    return listing(why + f" ({seeds(numbers)})" * (None not in numbers) for why, numbers in seeds_of.items())


def listing(items: Iterable[Any]) -> str:
    """`a`, `a and b`, `a, b and c`; where an item has a comma, `a, b; and c`."""
    words = [str(item) for item in items]
    if len(words) < 2:
        return "".join(words)
    if any(", " in word for word in words):
        return f"{'; '.join(words[:-1])}; and {words[-1]}"
    return f"{', '.join(words[:-1])} and {words[-1]}"


# --- HTML and LaTeX ----------------------------------------------------------------------------------------------


def html(value: Any) -> Any:
    """A span of code in backticks as HTML has it; other values stay as they are, to be escaped by the template.

    >>> html("On `mini` R@1 < 5"), html(3)
    (Markup('On <code>mini</code> R@1 &lt; 5'), 3)
    """
    is_plain = isinstance(value, str) and not isinstance(value, Markup)
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(value)))) if is_plain else value


def plain(words: str) -> str:
    """Words without the backticks of code, where there is no markup.

    >>> plain("On `mini`")
    'On mini'
    """
    return _CODE.sub(r"\1", words)


def tex(value: Any) -> Tex:
    """Escape what LaTeX would read as commands; text that is `Tex` already stays as it is.

    >>> tex("50 % & more_or_less"), tex("on `mini`")
    ('50 \\\\% \\\\& more\\\\_or\\\\_less', 'on \\\\texttt{mini}')
    """
    if isinstance(value, Tex):
        return value
    # Split at spans of code, which come out at the odd places.
    parts = enumerate(part.translate(_TEX) for part in _CODE.split(str(value)))
    return Tex("".join(rf"\texttt{{{part}}}" if place % 2 else part for place, part in parts))
