"""The page of results, and the reports of kept studies that it leads to, made from records.

The site's build writes it anew into this folder: sphinx-build -W docs site.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import StrictUndefined, Template

from vsepp.pipeline.planner import make_plan
from vsepp.report.entries import ReportSpec
from vsepp.report.pages import write_report
from vsepp.report.verdicts import SIGNS

TEXT = Path(__file__).with_name("results.md.j2")


@dataclass(frozen=True)
class Report:
    """A report that was made from records."""

    spec: ReportSpec
    folder: str
    """Its folder, below that of the site."""
    verdicts: dict[bool, dict[str, int]]
    """Whether claims are the paper's → verdict → how many have it."""

    @property
    def title(self) -> str:
        """What was studied, on what."""
        return self.spec.context.title

    @property
    def link(self) -> str:
        """Its page."""
        return f"{self.folder}/index.html"

    @property
    def runs(self) -> int:
        """Runs with records."""
        return len({model.model for model in self.spec.models})

    @property
    def trainings(self) -> int:
        """Trainings with records, one a seed."""
        return len(self.spec.models)


def write_reports(studies: Mapping[str, Iterable[str]], site: Path) -> list[Report]:
    """Make the reports of studies from what is kept of them, whatever else was trained here.

    Parameters
    ----------
    studies
        Preset → its papers.
    site
        Folder of the site, which gets `results/<preset>/reports/<paper>/`.
    """
    reports = []
    for preset, papers in studies.items():
        plan = make_plan(Path("params"), {"preset": preset, "papers": list(papers)})
        for paper, artefact in plan.of_kind("report").items():
            kept = replace(
                artefact.spec, models=tuple(model for model in artefact.spec.models if model.study)
            )
            folder = f"results/{preset}/reports/{paper}"
            write_report(kept, site / folder, site / folder)
            reports.append(Report(kept, folder, verdicts_in(site / folder / "claims.csv")))
    return reports


def verdicts_in(claims: Path) -> dict[bool, dict[str, int]]:
    """How many claims got which verdict, in the order of the pages."""
    with claims.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    counts = {}
    for ours in (False, True):
        words = [row["verdict"] for row in rows if (row["of_the_paper"] == "0") is ours]
        counts[not ours] = {word: words.count(word) for word in SIGNS if word in words}
    return counts


def results_document(reports: Iterable[Report]) -> str:
    """What was measured, and where its pages are, as Markdown."""
    text = Template(
        TEXT.read_text(encoding="utf-8"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return text.render(reports=list(reports)) + "\n"
