"""Identity of code: the digest of all modules that a step computes with."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple

from vsepp.base.components import source_file
from vsepp.base.digests import FileCache, value_digest

CODE = Path("results") / ".state" / "code-4.json"
"""File of a working folder that keeps digests and imports of modules, so that each is parsed once; another format has another name."""
_STEPS = "vsepp.pipeline.steps."
# Declarations, plumbing and what is printed: no number depends on them, so a change here must not retrain anything.
NOT_COMPUTATION = tuple(
    f"vsepp.{name}."
    for name in (
        "base.components",
        "base.declared",
        "base.devices",
        "base.digests",
        "base.errors",
        "base.files",
        "base.machine",
        "base.manifest",
        "base.progress",
        "base.provenance",
        "base.publish",
        "base.run_spec",
        "base.spec",
        "base.words",
        "evaluation.shown",
        "pipeline",
        "apps",
    )
)


@cache
def code_digest(*modules: str) -> str:
    """Digest of the code of these modules and of all modules of their package that they import.

    It is taken of syntax trees without docstrings, comments and layout. Modules that are looked up by name at run time (a
    loss, a similarity, an encoder) are not found by following imports: pass the modules that a run names.

    Parameters
    ----------
    modules
        Dotted names, below `vsepp` or of a package that offers components.
    """
    digest = value_digest({name: _module(name).digest for name in sorted(modules_of(*modules))})
    if CODE.parents[1].is_dir():
        _code().save()
    return digest


def modules_of(*modules: str) -> set[str]:
    """These modules and all modules of their package that they import, directly or indirectly, without declarations and plumbing.

    A step's own module counts too, but what it imports does not: it names what it computes with.
    """
    modules_read: set[str] = set()
    queue = list(modules)
    while queue:
        name = queue.pop()
        own = name.startswith(_STEPS)
        if name in modules_read or (f"{name}.".startswith(NOT_COMPUTATION) and not own):
            continue
        modules_read.add(name)
        if not own:
            queue.extend(_imports(name))
    return modules_read


class _Module(NamedTuple):
    """Digest and imports of a module."""

    digest: str
    """Digest of its syntax tree."""
    imports: list[str]
    """`package.name` of each `from package import name`, a module or something in one; of `import module` the module."""


@cache
def _code() -> FileCache:
    return FileCache(CODE)


@cache
def _module(name: str) -> _Module:
    return _Module(*_code().get(source_file(name), partial(_read_module, name)))


def _read_module(name: str, file: Path) -> _Module:
    tree = _tree(file)
    return _Module(value_digest(_plain(tree)), list(_imported(name, file, tree)))


def _imports(name: str) -> Iterator[str]:
    """Modules of vsepp and of its own package that a module imports."""
    for whole in _module(name).imports:
        if whole.split(".")[0] in ("vsepp", name.split(".")[0]):
            yield whole if _is_module(whole) else whole.rpartition(".")[0]


def _imported(name: str, file: Path, tree: ast.Module) -> Iterator[str]:
    own_package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = resolve_name("." * node.level + (node.module or ""), own_package)
            yield from (f"{package}.{alias.name}" for alias in node.names)


@cache
def _is_module(name: str) -> bool:
    try:
        return source_file(name).is_file()
    except ModuleNotFoundError:
        return False


def _tree(file: Path) -> ast.Module:
    """Syntax tree of a module without docstrings and the strings that document a field below it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes: Iterable[Any] = ast.walk(tree)
    for node in nodes:
        body = getattr(node, "body", None)
        if isinstance(body, list):  # the body of a lambda is an expression
            node.body = [statement for statement in body if not _is_text(statement)] or [ast.Pass()]
    return tree


def _plain(node: Any) -> Any:
    """A syntax tree as JSON, the same on every Python: empty fields are left out, since some versions have fields that others lack."""
    if isinstance(node, ast.AST):
        fields = {name: _plain(value) for name, value in ast.iter_fields(node) if value != []}
        return [type(node).__name__, fields]
    if isinstance(node, list):
        return [_plain(item) for item in node]
    # `repr` of a text shows the letters that this Python's Unicode knows.
    return node if isinstance(node, str) else [repr(node)]


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
