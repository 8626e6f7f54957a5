"""Pages of the site that are made from parsers and records."""

import pkgutil
import re

from commands_page import MORE, commands_document
from plans import PARAMS, plan
from results_page import Report, results_document, verdicts_in

from vsepp.apps.cli.commands import GROUPS, make_parser

KEPT = PARAMS.parent / "docs/results/flickr8k/reports/flickr8k_study"


def test_the_reference_has_every_command_in_its_group_with_its_help(monkeypatch):
    monkeypatch.setenv("COLUMNS", "96")
    page, (_, commands) = commands_document(), make_parser()
    heads = re.findall(r"^(##+) `?(.+?)`?$", page, re.MULTILINE)
    assert heads == [
        head
        for title, names in GROUPS.items()
        for head in (("##", title.capitalize()), *(("###", name) for name in names))
    ]
    assert set(MORE) <= set(commands)
    assert "usage: vsepp serve [-h]" in page and "--pictures FOLDER" in page
    for name, parser in commands.items():
        assert f"### `{name}`\n\n{parser.description}" in page, name


def test_every_name_on_the_page_of_the_library_can_be_imported():
    page = (PARAMS.parent / "docs/api.md").read_text(encoding="utf-8")
    names = re.findall(r"^\.\. auto\w+:: (\S+)$", page, re.MULTILINE)
    assert len(names) > 30
    for name in names:
        pkgutil.resolve_name(name)


def test_the_page_of_results_counts_what_the_claims_of_a_report_got():
    study = plan(preset="flickr8k", papers=["flickr8k_study"])
    spec = study.of_kind("report")["flickr8k_study"].spec
    page = results_document([Report(spec, "results/study", verdicts_in(KEPT / "claims.csv"))])
    assert "### The claims of VSE++ on Flickr8k\n\n25 runs, 59 trainings with their seeds." in page
    assert (
        "- **Claims of the paper**, each about one metric: 6 same direction, 9 inconclusive, 7 inconclusive (one seed), "
        in page
    )
    assert '<a href="results/study/index.html">The page</a>' in page
    assert '<a href="results/study/tables/order.html">Order embeddings</a>' in page
