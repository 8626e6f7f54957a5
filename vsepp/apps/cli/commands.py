"""The parser of all commands, and a call of the command line from its words to its exit status."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence

from vsepp import __version__
from vsepp.apps.cli import ask, compare_models, evaluate, make, own, results, show
from vsepp.base.environment import environment
from vsepp.base.errors import VseppError, as_started, did_you_mean, printable
from vsepp.base.progress import configure_logging

GROUPS = {
    "use a model": ("try", "query", "serve", "export", "evaluate", "compare"),
    "look at runs and results": ("runs", "show", "verify", "record"),
    "steps, which the workflow calls": ("fetch", "make"),
}
"""What commands are for → the commands, in the order of the help and of the site's reference."""
_DOES = "Find photographs for a sentence, and captions for a photograph; train, test and compare such models."
_ENDS = f"""\
`{as_started()}vsepp COMMAND -h` explains a command, with an example. In the project's folder,
`{as_started()}snakemake --cores all reproduce_tables` calls all steps that are needed."""


def make_parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser of the command line, and the parser of each command."""
    parser = argparse.ArgumentParser(
        prog="vsepp",
        usage="vsepp [-h] [--version] COMMAND ...",
        description=_DOES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vsepp {__version__}")
    steps = parser.add_subparsers(prog="vsepp", metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for module in (own, show, make, evaluate, compare_models, ask, results):
        module.add_steps(steps)
    parser.epilog = "\n\n".join([*_listed(steps.choices), _ENDS])
    return parser, steps.choices


def _listed(commands: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """Each group with its commands, as wide as the terminal."""
    width = shutil.get_terminal_size().columns - 2
    wrap = textwrap.TextWrapper(width, subsequent_indent=" " * 13)
    return [
        "\n".join([f"{title}:", *(wrap.fill(f"  {name:<10} {commands[name].description}") for name in names)])
        for title, names in GROUPS.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step; the exit status is 0, or 1 with one message when the input is at fault."""
    parser, commands = make_parser()
    configure_logging()
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and not words[0].startswith("-") and words[0] not in commands:
        near = did_you_mean(words[0], commands) or "; `vsepp -h` lists them"
        parser.error(f"no command {words[0]}{near}")
    options = argparse.Namespace()
    if arguments is None:  # a process of its own, which a batch system or a closed terminal may ask to end
        os.environ.update(environment())
        # A process imports torch and soon ends: the collector, which goes through all modules each time, takes .6 s of 2.1.
        gc.set_threshold(100_000)
        atexit.register(gc.freeze)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # letters that the terminal does not know
                stream.reconfigure(errors="backslashreplace")
        for ending in own.ENDING[1:]:
            if signal.getsignal(ending) != signal.SIG_IGN:  # as nohup has it
                signal.signal(ending, signal.default_int_handler)
    try:
        options = parser.parse_args(arguments)
        options.call(options)
    except VseppError as error:
        _tell(str(error))
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "vsepp").partition(".")[0]
        if package == "vsepp":
            raise
        extra = {"flask": "serve", "waitress": "serve"}.get(package, "workflow")
        _tell(f"this step needs {package}, which is not installed: pip install 'vsepp[{extra}]'")
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        _tell("stopped; what is finished is kept, and the same command goes on with the rest")
        return 130
    except OSError as error:  # a full disk, a file that may not be read or written
        if not error.strerror:
            raise
        _tell(f"{error.filename or getattr(options, 'output', None) or 'a file'}: {error.strerror}")
        return 1
    return 0


def _tell(message: str) -> None:
    print(f"vsepp: error: {printable(message)}", file=sys.stderr)
