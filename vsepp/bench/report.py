"""All recorded results in Markdown: a section a machine, targets beside figures. Never imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from vsepp.bench.records import newest

Results = Mapping[str, Mapping[str, Any]]
"""Results by name."""
_COLUMNS = (
    "what",
    "per second",
    "range",
    "turns",
    "× time of the limit",
    "× speed of the reference",
    "peak host",
    "peak device",
    "date",
)


class Target(NamedTuple):
    """A figure that is aimed at; of several measurements that could reach it, the best counts."""

    what: str
    names: str
    """Pattern of the measurements."""
    figure: Callable[[Mapping[str, Any]], float | None]
    bound: float
    device: str | None = None
    """`cpu` or `cuda`, where it is one of the two only."""


def _per_second(entry: Mapping[str, Any]) -> float | None:
    return entry["per_second"]["median"]


def _times_reference(entry: Mapping[str, Any]) -> float | None:
    return entry.get("times_reference", {}).get("median")


TARGETS = (
    Target("1C at full size, pairs a second", "step-1c*/4096", _per_second, 25_000, "cuda"),
    Target("RC from a tape at full size, pairs a second", "step-rc-tape*/vgg19", _per_second, 25_000, "cuda"),
    Target("1C at full size, × speed of the reference step", "step-1c*/4096", _times_reference, 2.0, "cpu"),
    Target("ranks of 5,000 images, × speed of an argsort a query", "rank/5000", _times_reference, 20.0),
)
TIMES_LIMIT = 1.10
"""What a step or a tape may take at most, beside the bare passes of the encoder that it cannot do without."""


def render(records: list[dict[str, Any]]) -> str:
    """Markdown: what was measured on each machine and device, and which targets that reaches."""
    lines: list[str] = []
    for (machine, device), results in newest(records).items():
        of = [r for r in records if (r["machine"], r["device"]) == (machine, device)]
        lines += [*_heading(machine, device, of), _row(_COLUMNS), _row("---" for _ in _COLUMNS)]
        lines += [_row(_cells(results[name])) for name in sorted(results)]
        lines += ["", *_targets(results, device), ""]
    return "\n".join(lines)


def _heading(machine: str, device: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which machine, and how it was measured."""
    last = records[-1]
    said = [f"torch {last['versions']['torch']}"] if "torch" in last.get("versions", {}) else []
    said += [f"{last['threads']} threads"] if "threads" in last else []
    commands = dict.fromkeys(record["command"] for record in records)
    said.append("measured with " + ", ".join(f"`{command}`" for command in commands))
    loads = [record["load_before"] for record in records if "load_before" in record]
    if loads:
        said.append(f"load before it up to {max(loads):.1f}")
    return [f"### {machine if device == 'cpu' else f'{device} ({machine})'}", "", "; ".join(said) + ".", ""]


def _targets(results: Results, device: str) -> list[str]:
    """A row a target: the figure, and whether it is reached."""
    kind = "cpu" if device == "cpu" else "cuda"
    heads = ("target", "aim", "figure", "")
    lines = [_row(heads), _row("---" for _ in heads)]
    for target in TARGETS:
        if target.device in (None, kind):
            matching = {name: e for name, e in results.items() if fnmatchcase(name, target.names)}
            figures = {name: target.figure(entry) for name, entry in matching.items()}
            known = {name: figure for name, figure in figures.items() if figure is not None}
            best = max(known, key=known.__getitem__, default=None)
            said = "–" if best is None else f"{digits(known[best])} ({best})"
            reached = None if best is None else known[best] >= target.bound
            lines.append(_row((target.what, f"≥ {digits(target.bound)}", said, _said(reached))))
    bounded = {name: entry["times_limit"] for name, entry in results.items() if entry.get("times_limit")}
    for name, ratio in sorted(bounded.items()):
        what = f"{name}, × time of {ratio['of'].partition('/')[0]}"
        reached = ratio["median"] <= TIMES_LIMIT
        lines.append(_row((what, f"≤ {TIMES_LIMIT:.2f}", f"{ratio['median']:.2f}", _said(reached))))
    if not bounded:
        what = "tapes and steps with an encoder, × time of its bare passes"
        lines.append(_row((what, f"≤ {TIMES_LIMIT:.2f}", "–", _said(None))))
    return lines


def _said(reached: bool | None) -> str:
    return "not measured" if reached is None else "reached" if reached else "not reached"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(entry: Mapping[str, Any]) -> list[str]:
    rate = entry["per_second"]
    known = "min" in rate and "max" in rate
    return [
        entry["name"],
        f"{digits(rate['median'])} {entry['unit']}",
        f"{digits(rate['min'])}–{digits(rate['max'])}" if known else "–",
        str(rate.get("repetitions", "–")),
        _compared(entry.get("times_limit")),
        _compared(entry.get("times_reference")),
        _bytes(entry.get("peak_host_bytes")),
        _bytes(entry.get("peak_device_bytes")),
        entry["date"],
    ]


def _compared(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f}) of {ratio['of'].partition('/')[0]}"


def digits(value: float) -> str:
    """Three significant digits, with commas: 12,300 or 1.23."""
    if value >= 100:
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}"
    return f"{value:.3g}"


def _bytes(count: int | None) -> str:
    return "–" if count is None else f"{count / 2**20:,.0f} MiB"
