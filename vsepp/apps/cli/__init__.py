"""The command line: what a person uses, and below it the steps that the workflow calls.

Read `commands` (the parser, and how a call ends), `common` (options that commands share), then a module a group: `ask` (query, serve,
export), `own` (try), `evaluate`, `compare_models`, `show` (runs, show, and how a plan is chosen), `results` (verify, record), `make` (fetch,
make). A command parses its options and calls a room that does the work; messages name options here alone.
Torch is imported only where a model computes.
"""

from vsepp.apps.cli.commands import main as main
