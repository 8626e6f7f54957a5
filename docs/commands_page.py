"""The reference of the command line, written from its parsers.

The site's build writes it anew into this folder: sphinx-build -W docs site.
"""

from __future__ import annotations

import argparse

from vsepp.apps.cli.commands import GROUPS, make_parser

HEAD = """\
# Commands

In a clone, `uv run vsepp COMMAND`; where the package is installed, `vsepp COMMAND`. This page is what `vsepp COMMAND -h` prints.
The whole reproduction is one command of Snakemake, which calls the [steps](#steps-which-the-workflow-calls): [Run it](running.md).
"""
MORE = {
    "try": "[Train on your own pictures](using.md#train-on-your-own-pictures)",
    "query": "[Use a model](using.md)",
    "serve": "[Use a model](using.md#ask-on-a-page)",
    "export": "[Use a model](using.md#export-a-model)",
    "compare": "[Compare models](comparing.md)",
    "evaluate": "[Score any model](comparing.md#score-any-model)",
    "show": "[Extend](extending.md#change-values)",
    "verify": "[Versions of results](versions.md#what-is-verified)",
    "make": "[Architecture](architecture.md)",
    "record": "[Records](running.md#records)",
}
"""Command → the page that explains it."""


def commands_document() -> str:
    """Every command with its options, in the groups of the help, as Markdown."""
    _, commands = make_parser()
    groups = [
        "\n".join([f"## {title.capitalize()}\n", *(_command(name, commands[name]) for name in names)])
        for title, names in GROUPS.items()
    ]
    return "\n".join([HEAD, *groups])


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    """A command as a section: what it does, where to read on, and its help."""
    description, parser.description = parser.description, None
    more = f" More: {MORE[name]}." if name in MORE else ""
    return f"### `{name}`\n\n{description}{more}\n\n```text\n{parser.format_help()}```\n"
