"""How a preset is best set on this machine, from what was measured and found right, and what the paper then takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
BAR = 1.10
"""Time of a step that an encoder's pass bounds, over that of the pass alone: at most that."""
BOUND = {"tape": "forward", "step-rc-inline": "forward", "step-finetuned": "forward-backward"}
"""What is bound by which pass."""
AIMS = {
    ("forward", "torchvision/resnet152@224"): 10_000,
    ("forward", "torchvision/vgg19@224"): 12_000,
    ("step-finetuned", "torchvision/resnet152@224"): 2_600,
    ("step-finetuned", "torchvision/vgg19@224"): 3_800,
    ("sharing", "4096/1024"): 60_000,
}
"""Items a second on an H100, encoders in bf16, to stand beside what was reached."""


def advice(rows: Sequence[Row], right: Iterable[str], prepared: Mapping[str, Any] | None) -> list[str]:
    """Lines of YAML for a preset, how far each step is from its limit, and hours.

    Parameters
    ----------
    rows
        Of the table.
    right
        `variant/precision` of the encoders whose features were found right: nothing else is advised.
    prepared
        Of `jobs.prepared_in`; without it no hours are given.
    """
    rates = {(row["what"], row["variant"], row["precision"]): float(row["median"]) for row in rows}
    best = _best_encoders(rates, set(right))
    lines = ["encoders:"] if best else []
    for network, (way, precision) in best.items():
        keys = [f"precision: {precision}", *map(_key, way.split())]
        rate = rates["tape", f"{network} {way}".strip(), precision]
        role = prepared["roles"].get(network) if prepared else None
        lines.append(
            f"  {role or f'<role of {network}>'}: {{{', '.join(keys)}}}    # {rate:,.0f} images/s into random-crop features"
        )
    if any("bf16" in chosen for chosen in best.values()):
        lines.append("# bf16 for the paper's preset only where recalls over three seeds allow it, see below")
    shared = _shared(rates)
    if shared:
        count, rate = max(shared.items(), key=lambda item: item[1])
        lines.append(
            f"resources: {{runs_per_gpu: {count.removeprefix('sharing-')}}}    # {rate:,.0f} pairs/s together"
        )
    return [*lines, "", *_limits(rates), *(_hours(prepared, rates, best) if prepared and rates else [])]


def _shared(rates: Mapping[tuple[str, str, str], float]) -> dict[str, float]:
    """Trainings at once → pairs a second, all together."""
    return {what: rate for (what, _, _), rate in rates.items() if what.startswith("sharing-")}


def _key(part: str) -> str:
    return (
        f"compile: {part.removeprefix('compile-')}"
        if part.startswith("compile-")
        else f"memory_format: {part}"
    )


def _best_encoders(
    rates: Mapping[tuple[str, str, str], float], right: set[str]
) -> dict[str, tuple[str, str]]:
    """Network → how it writes random-crop features fastest, of the ways whose features are right."""
    found: dict[str, tuple[float, str, str]] = {}
    for (what, named, precision), rate in rates.items():
        network, _, way = named.partition(" ")
        if what == "tape" and f"{named}/{precision}" in right:
            found[network] = max(found.get(network, (0.0, "", "")), (rate, way, precision))
    return {network: (way, precision) for network, (_, way, precision) in found.items()}


def _limits(rates: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Each step's time over that of the pass that bounds it, and what an H100 should reach."""
    lines = []
    for (what, named, precision), rate in rates.items():
        limit = rates.get((BOUND.get(what, ""), named, precision))
        told = []
        if limit:
            ratio = limit / rate
            told.append(
                f"{ratio:.2f} × the time of {BOUND[what]}{'' if ratio <= BAR else f', ABOVE {BAR:.2f}'}"
            )
        aim = AIMS.get(("sharing" if what.startswith("sharing") else what, named.partition(" ")[0]))
        if aim and (precision == "bf16" or what.startswith("sharing")):
            told.append(f"aim on an H100: {aim:,}")
        if told:
            lines.append(f"{what} {named} {precision}: {rate:,.0f}/s; {'; '.join(told)}")
    return lines


def _hours(
    prepared: Mapping[str, Any],
    rates: Mapping[tuple[str, str, str], float],
    best: Mapping[str, tuple[str, str]],
) -> list[str]:
    """Hours of the paper's preset as it is set, and with the advice; without validations and evaluations."""
    shared, lines = _shared(rates), []
    together = max(shared.values()) / shared["sharing-1"] if "sharing-1" in shared else 1.0
    for name, chosen, steps, at_once in (
        ("as it is set, one training at a time", {}, None, 1.0),
        ("with these encoders", best, None, 1.0),
        ("and steps in bf16, trainings on features sharing the card", best, "bf16", together),
    ):
        seconds, missing = 0.0, set()
        for what, named, precision, amount in prepared["paper"]:
            if what in ("tape", "step-finetuned") and named in chosen:
                way, of_encoder = chosen[named]
                named = f"{named} {way}".strip()
                precision = of_encoder if what == "tape" else precision
            if what.startswith("step") and steps:
                precision = steps
            if rate := rates.get((what, named, precision)):
                on_features = what.startswith("step") and what != "step-finetuned"
                seconds += amount / rate / (at_once if on_features else 1.0)
            elif what != "store":
                missing.add(f"{what} {named} {precision}")
        lacks = f", lacking {'; '.join(sorted(missing))}" if missing else ""
        lines.append(
            f"the paper's preset, one seed, {name}: {seconds / 3600:.1f} hours of one GPU (aim: 6){lacks}"
        )
    return lines
