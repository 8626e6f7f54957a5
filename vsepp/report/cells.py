"""Cells ready to be printed: what a page and LaTeX show of a table, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vsepp.report import entries, text
from vsepp.report.entries import ContextSpec
from vsepp.report.tables import Cell, FilledGroup, FilledRow, FilledTable
from vsepp.report.text import Tex
from vsepp.report.verdicts import FAILED, ONE_SEED, SIGNS, Verdict, of_the_paper


@dataclass(frozen=True)
class PageCell:
    """A cell of a page."""

    words: object = ""
    classes: str = ""
    run: str = ""
    """The run whose page its words lead to; empty: none."""
    marks: tuple[str, ...] = ()
    """Letters and signs of its notes."""
    spans: tuple[tuple[str, str], ...] = ()
    """Classes and words of what follows: `under` is a line below, `tag` a box."""
    tag: str = "td"
    more: Mapping[str, object] = field(default_factory=dict)
    """Attributes of its tag, such as `colspan`."""

    @property
    def attributes(self) -> dict[str, object]:
        """All attributes of its tag."""
        return {"class": self.classes or None, **self.more}


def head(words: object, classes: str = "", scope: str = "col", **more: object) -> PageCell:
    """The head of a column, a row or several."""
    return PageCell(words, classes, tag="th", more={"scope": scope, **more})


def under(*lines: str, classes: str = "under") -> tuple[tuple[str, str], ...]:
    """Spans below a cell's words; lines without words are left out."""
    return tuple((classes, line) for line in lines if line)


# --- A page ------------------------------------------------------------------------------------------------------


def page_heads(table: FilledTable) -> list[list[PageCell]]:
    """Heads of ours and the paper's, of the tasks, of the metrics: three lines."""
    spec = table.spec
    columns = len(spec.cells)
    number = head("Row", "no", rowspan=3) if table.published else PageCell(classes="no", more={"rowspan": 3})
    blocks = ["Ours" + ", mean ± sd over the seeds" * table.has_seeds, *["Paper"] * table.published]
    tasks, metrics = [], []
    for _ in blocks:
        for task in spec.tasks:
            left = " left" * (task == spec.tasks[0])
            tasks.append(head(text.TASKS[task], f"span{left}", "colgroup", colspan=len(spec.columns)))
        metrics += [head(text.metric_name(name), _edges(spec, name)) for name in spec.cells]
    return [
        [
            number,
            head("Model", rowspan=3),
            *[head("Training set", "wide", rowspan=3)] * spec.trainset,
            *(head(block, "span left", "colgroup", colspan=columns) for block in blocks),
        ],
        tasks,
        metrics,
    ]


def page_group(table: FilledTable, group: FilledGroup) -> list[PageCell]:
    """The head of a group: its heading, and what our numbers come from; none without both."""
    measured_on = f"Ours: {group.measured_on}" if group.measured_on else ""
    spans = (*under(group.heading, classes="stay"), *under(measured_on, classes="stay under"))
    width = 2 + table.spec.trainset + len(table.spec.cells) * (1 + table.published)
    return [replace(head("", scope="rowgroup", colspan=width), spans=spans)] if spans else []


def page_rows(table: FilledTable, group: FilledGroup) -> Iterator[tuple[dict[str, str], list[PageCell]]]:
    """Attributes and cells of each line of a group."""
    spec = table.spec
    for row in group.rows:
        run = row.run if row.ours else ""
        number = PageCell(row.id * (not row.own), "no", run * (not row.own), row.marks)
        trainset = [PageCell(row.facts["trainset_label"], "wide")] * spec.trainset
        cells = [
            *_page_cells(spec, row, "ours"),
            *(_page_cells(spec, row, "paper") if table.published else []),
        ]
        attributes = {"class": f"{row.facts['kind']}{' trouble' * bool(row.trouble)}", "data-row": row.id}
        yield attributes, [number, _label(spec, row, run), *trainset, *cells]
        if row.released:
            label = head(f"the authors’ checkpoint of row {row.id}, evaluated here", "model", "row")
            blank = [PageCell(classes=_edges(spec, name)) for name in spec.cells] * table.published
            released = _page_cells(spec, row, "released")
            yield (
                {"class": "below"},
                [PageCell(), label, *[PageCell(classes="wide")] * spec.trainset, *released, *blank],
            )


def _label(spec: entries.Table, row: FilledRow, run: str) -> PageCell:
    """The head of a row: the model, where it is from, and what is wrong with it."""
    facts = row.facts
    spans = (
        *under(facts["citation"]),
        *under(facts["trainset_label"] * spec.trainset, classes="under narrow"),
        *under(row.left_out),
        *[("tag", "not run")] * (row.status == "not run"),
        *[("tag bad", row.trouble)] * bool(row.trouble),
    )
    return replace(head(facts["label"], "model", "row"), run=run, spans=spans)


def _page_cells(spec: entries.Table, row: FilledRow, source: str) -> list[PageCell]:
    """A line of numbers, in which a dash says that one is missing; where a source has no line, its cells are empty."""
    is_there = bool(row.ours) if source == "ours" else not row.own or source == "released"
    missing = text.MISSING * is_there
    return [_page_cell(cell, _edges(spec, name), missing) for name, cell in row.cells[source].items()]


def _page_cell(cell: Cell, classes: str, missing: str) -> PageCell:
    if cell.value is None:
        return PageCell(missing, classes)
    classes += " best" * cell.best
    spans, more = under(text.deviation(cell.sd)), {}
    if cell.tint is not None:
        classes, more = f"{classes} tint", {"style": f"--tint: {cell.tint:.2f}"}
    return PageCell(
        text.number(cell.value), classes, marks=(cell.mark,) * bool(cell.mark), spans=spans, more=more
    )


def _edges(spec: entries.Table, name: str) -> str:
    """Classes of a column of numbers: whether it begins a task, or the numbers of a source."""
    begins = name.rpartition("_")[2] == spec.columns[0]
    return f"n{' first' * begins}{' left' * (name == spec.cells[0])}"


def legend(table: FilledTable) -> str:
    """What bold says in a table, on a page and in LaTeX."""
    sources = ", ours among ours and the paper’s among the paper’s" * table.published
    one_seed = any(len(row.ours) == 1 for row in table.rows)
    settled = " Ours only where all rows compared are means over several seeds: one seed settles nothing."
    return f"Bold: best of its column and group{sources}.{settled * one_seed}"


def page_notes(table: FilledTable, context: ContextSpec) -> list[str]:
    """What is said below a table, before the notes of its marks."""
    compare = " Ours and the paper’s levels are of different data: compare the gains."
    return [
        legend(table) + compare * (table.published and bool(context.data_note)),
        *["The darker a cell, the better it is among its column and group."] * bool(table.spec.tint),
    ]


def page_commands(table: FilledTable, commands: Mapping[str, str]) -> list[tuple[str, str]]:
    """Rows that are there, with the command that makes each."""
    return [(row.id, commands[row.run]) for row in table.rows if row.run in commands]


def tint(table: FilledTable) -> str | None:
    """Style of a table whose cells are tinted."""
    return f"--tinted: var(--{table.spec.tint})" if table.spec.tint else None


# --- LaTeX -------------------------------------------------------------------------------------------------------


def tex_caption(table: FilledTable, context: ContextSpec) -> Tex:
    """Title, caption and legend; the paper's tables keep their numbers, and others have none."""
    released = "Released: the authors' own checkpoint, evaluated here." * any(
        row.released for row in table.rows
    )
    sentences = (f"{table.spec.title}.", table.caption, legend(table), context.data_note, released)
    words = text.tex(" ".join(filter(None, sentences)))
    if not table.number:
        return Tex(rf"{{\raggedright {words}\par\vspace{{6pt}}}}")
    return Tex(
        rf"\renewcommand{{\thetable}}{{{text.tex(table.number.partition(' ')[2])}}}\caption{{{words}}}"
    )


def tex_columns(table: FilledTable) -> Tex:
    """The columns of a tabular. A deviation has one of its own, so that the values above and below it stay aligned."""
    number = r"r@{\,}l" if table.has_seeds else "r"
    return Tex("@{}" + "l" * _labels(table) + number * len(table.spec.cells) + "@{}")


def tex_heads(table: FilledTable) -> list[Tex]:
    """Lines of heads: the tasks with their rules, and the metrics."""
    spec, labels = table.spec, _labels(table)
    span = len(spec.columns) * (1 + table.has_seeds)
    tasks = [_multicolumn(span, "c", text.TASKS[task]) for task in spec.tasks]
    starts = [labels + place * span + 1 for place in range(len(tasks))]
    rules = [Tex(rf"\cmidrule(lr){{{start}-{start + span - 1}}}") for start in starts]
    metrics = [text.metric_name(name) for name in spec.cells]
    if table.has_seeds:
        metrics = [_multicolumn(2, "c", name) for name in metrics]
    first = _line([_multicolumn(labels, "@{}l", ""), *tasks])
    return [first, *rules, _line(["#", "Model", *["Trainset"] * spec.trainset, "", *metrics])]


def tex_groups(table: FilledTable) -> Iterator[list[Tex]]:
    """Lines of each group, its heading first."""
    width = _labels(table) + len(table.spec.cells) * (1 + table.has_seeds)
    troubles = _troubles(table)
    for group in table.groups:
        heading = [Tex(rf"\textbf{{{text.tex(group.heading)}}}")] * bool(group.heading)
        heading += [text.tex(f"ours: {group.measured_on}")] * bool(group.measured_on)
        lines = [_line([_multicolumn(width, "@{}c@{}", Tex("; ".join(heading)))]), Tex(r"\midrule")]
        lines = lines if heading else []
        for row, following in zip(group.rows, [*group.rows[1:], None], strict=True):
            lines += _tex_row(table, row, troubles.get(_trouble(row), ""))
            if following and not row.status == following.status == "quoted":
                lines.append(Tex(r"\addlinespace[2pt]"))
        yield lines


def _tex_row(table: FilledTable, row: FilledRow, trouble: str) -> Iterator[Tex]:
    """A line for each source of a row, the first with the row's labels; `trouble` is the letter of what is wrong with it."""
    facts = row.facts
    number = Tex(text.tex(row.id * (not row.own)) + _raised(*row.marks, trouble))
    label = ", ".join(filter(None, (facts["label"], facts["citation"])))
    labels = [number, label, *[facts["trainset_label"]] * table.spec.trainset]
    ours, paper = row.status != "quoted", not row.own
    for source in ["ours"] * ours + ["paper"] * paper + ["released"] * bool(row.released):
        cells = row.cells[source].values()
        if source == "ours" and not row.ours:
            numbers = [_multicolumn(len(cells) * (1 + table.has_seeds), "c", "not run")]
        else:
            numbers = [part for cell in cells for part in _tex_cell(cell, table.has_seeds)]
        yield _line([*labels, source, *numbers])
        labels = [""] * len(labels)


def _tex_cell(cell: Cell, has_seeds: bool) -> list[Tex]:
    """A number, bold where it is the best, its mark hung on without moving it, and its deviation where the table has them."""
    words = text.tex(text.number(cell.value))
    number = Tex(rf"\textbf{{{words}}}") if cell.best else words
    if cell.mark:
        number = Tex(rf"{number}\rlap{{{_raised(cell.mark)}}}")
    sd = "" if cell.sd is None else rf"{{\scriptsize$\pm${text.number(cell.sd)}}}"
    return [number, *[Tex(sd)] * has_seeds]


def tex_notes(table: FilledTable) -> list[Tex]:
    """Each mark of a tabular, with its one meaning."""
    notes = [
        *table.notes,
        *((letter, f"{words.capitalize()}.") for words, letter in _troubles(table).items()),
    ]
    return [Tex(f"{_raised(mark)} {text.tex(words)}") for mark, words in notes]


def _trouble(row: FilledRow) -> str:
    """What a page says in the head of a row: why its numbers say nothing, or which seeds are left out."""
    return row.trouble or row.left_out


def _troubles(table: FilledTable) -> dict[str, str]:
    """What is wrong with rows → the letter of its note; the letters follow those of the table's own notes."""
    words = dict.fromkeys(filter(None, map(_trouble, table.rows)))
    start = sum(mark not in text.MARKS for mark, _ in table.notes)
    return {trouble: text.letter(number) for number, trouble in enumerate(words, start)}


def _labels(table: FilledTable) -> int:
    """Columns before the numbers: row, model, training set, source."""
    return 3 + table.spec.trainset


def _raised(*marks: str) -> Tex:
    """Marks of notes above the line; nothing without marks."""
    raised = ",".join(text.tex(mark) for mark in marks if mark)
    return Tex(f"$^{{{raised}}}$" if raised else "")


def _multicolumn(columns: int, place: str, words: str) -> Tex:
    return Tex(rf"\multicolumn{{{columns}}}{{{place}}}{{{text.tex(words)}}}")


def _line(cells: Iterable[str]) -> Tex:
    words = (f" {escaped}" if (escaped := text.tex(cell)) else "" for cell in cells)
    return Tex(" &".join(words).removeprefix(" ") + r" \\")


# --- Verdicts ----------------------------------------------------------------------------------------------------

_READING = (
    "Effects are points; below ours its 95\u00a0% intervals, over the test images and over the seeds. Beside the paper’s number ± is the "
    "standard deviation that the effect of one seed has, by our seeds: the paper has one. p: permutation test over the images, "
    "corrected after Holm for all claims and comparisons; intervals over seeds and verdicts on curves are not corrected."
)


@dataclass(frozen=True)
class Ledger:
    """Verdicts of one kind, the paper's claims or comparisons of one's own."""

    noun: str
    """What each is called."""
    heading: str
    caption: str
    verdicts: Sequence[Verdict]

    @property
    def judged(self) -> list[Verdict]:
        """Those whose runs were made."""
        return [verdict for verdict in self.verdicts if verdict.judged]

    @property
    def left(self) -> list[Verdict]:
        """Those whose runs were not made."""
        return [verdict for verdict in self.verdicts if not verdict.judged]

    @property
    def summary(self) -> str:
        """What the folded list of these is called."""
        left = text.plural(len(self.left), f"{'more ' if self.judged else ''}{self.noun}")
        return f"{left}, each about one metric, on runs that were not made"

    @property
    def has_one_seed(self) -> bool:
        """Whether no verdict was given but on runs that failed."""
        return all(verdict.word in (ONE_SEED, *FAILED) for verdict in self.judged)

    @property
    def about(self) -> str:
        """What stands above the verdicts."""
        silent = " One seed settles nothing, so no verdict is given." * self.has_one_seed
        return f"{self.caption}{silent} {_READING}"


def ledgers(verdicts: Iterable[Verdict]) -> list[Ledger]:
    """The paper's claims, then comparisons of one's own, as far as there are any."""
    claims, comparisons = of_the_paper(verdicts)
    caption = "The claims, with their places in the paper, and what our runs say of them."
    heading = "Comparisons of our own, not in the paper"
    kinds = (
        Ledger("claim", "", caption, claims),
        Ledger("comparison", heading, "What the paper does not claim.", comparisons),
    )
    return [ledger for ledger in kinds if ledger.verdicts]


def verdict_cells(verdict: Verdict, ledger: Ledger) -> list[PageCell]:
    """Verdict, metric, our effect, the paper's, and p; a phone shows each number below its label."""
    effect, in_points = verdict.effect, verdict.spec.in_points
    value, interval = (text.signed, text.interval) if in_points else (text.epoch, text.levels)
    seeds = text.plural(verdict.measured.seeds, "seed")
    bounds = ((effect.images, "images"), (effect.seeds, seeds)) if effect else ()
    numbers = {
        "Ours": (
            value(effect.value if effect else None),
            *(f"{interval(ends)} {sampled}" for ends, sampled in bounds if ends),
        ),
        "Paper": (value(verdict.published), text.deviation(verdict.paper_sd)),
        "p": (text.p_value(effect.p if effect else None),),
    }
    spans = under(verdict.why)
    if not (verdict.word == ONE_SEED and ledger.has_one_seed):
        spans = (f"verdict {text.slug(verdict.word)}", f"{SIGNS[verdict.word]} {verdict.word}"), *spans
    return [
        PageCell(classes="said", spans=spans),
        PageCell(text.metrics(verdict.metric), "metric"),
        *(
            PageCell(words, "n", spans=under(*lines), more={"data-label": label})
            for label, (words, *lines) in numbers.items()
        ),
    ]
