"""SHA-256 digests of files, folders, specs and code, and the difference of two specs."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple

from vsepp.components import source_file
from vsepp.runtime.files import write_text

_STATE = Path("results") / ".state"
DIGESTS = _STATE / "digests.json"
"""File of a working folder that keeps digests of large files."""
CODE = _STATE / "code-4.json"
"""File of a working folder that keeps digests and imports of modules, so that each is parsed once; another format has another name."""
_NOT_CONTENT = ("manifest.json", ".snakemake_timestamp")

# Declarations and plumbing: no number depends on them, so a change here must not retrain anything.
_NOT_COMPUTATION = tuple(
    f"vsepp.{name}."
    for name in (
        "spec",
        "declared",
        "errors",
        "user_files",
        "user_yaml",
        "runtime.devices",
        "runtime.files",
        "runtime.machine",
        "runtime.progress",
        "runtime.workers",
        "components",
        "provenance",
        "cli",
        "config",
    )
)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class FileCache:
    """Values computed from files: valid as long as size, times and inode of the file stay the same.

    Parameters
    ----------
    path
        JSON file that keeps them between calls; if it is damaged or missing, everything is computed again.
    forget
        Whether to compute everything anew.
    """

    def __init__(self, path: Path, *, forget: bool = False) -> None:
        self._path = path
        self._entries: dict[str, Any] = {}
        self._changed = False
        self.read = 0
        """Bytes of the files that values were computed from."""
        with suppress(OSError, ValueError, TypeError):
            self._entries = {} if forget else dict(json.loads(path.read_text(encoding="utf-8")))

    def get(self, file: Path, compute: Callable[[Path], Any]) -> Any:
        """The value of a file, a JSON value; `compute` gives it where it is not known."""
        status = file.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        entry = self._entries.get(str(file))
        if isinstance(entry, list) and entry[:1] == [state]:
            return entry[1]
        value = compute(file)
        self._entries[str(file)] = [state, value]
        self._changed = True
        self.read += status.st_size
        return value

    def save(self) -> None:
        """Keep the values of files that are still there, where this user may write."""
        if self._changed:
            there = {name: entry for name, entry in self._entries.items() if Path(name).exists()}
            with suppress(OSError):
                write_text(self._path, json.dumps(there, indent=0) + "\n")
        self._changed = False


def path_digest(path: Path, known: FileCache | None = None) -> str:
    """Digest of a file, or of the relative names and contents in a folder, without manifests and Snakemake's time stamps.

    Parameters
    ----------
    path
        File or folder.
    known
        Digests of files that need not be read again.
    """
    if path.is_file():
        return known.get(path, file_digest) if known else file_digest(path)
    entries = sorted(p for p in path.rglob("*") if p.is_file() and p.name not in _NOT_CONTENT)
    return value_digest([[p.relative_to(path).as_posix(), path_digest(p, known)] for p in entries])


def value_digest(value: Any) -> str:
    """Digest of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def differing(one: Any, other: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Innermost differences of two JSON values: dotted key and both values, `None` for a missing value."""
    if one == other:
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [(name, one.get(name), other.get(name)) for name in sorted(one.keys() | other.keys())]
    elif _are_objects(one) and _are_objects(other) and len(one) == len(other):
        parts = [(str(k), *pair) for k, pair in enumerate(zip(one, other, strict=True))]
    else:
        return [(key, one, other)]
    return [found for name, a, b in parts for found in differing(a, b, f"{key}.{name}".lstrip("."))]


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


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
    digest = value_digest({name: _module(name).digest for name in sorted(_closure(modules))})
    if CODE.parents[1].is_dir():
        _code().save()
    return digest


def _closure(modules: Iterable[str]) -> set[str]:
    found: set[str] = set()
    queue = list(modules)
    while queue:
        name = queue.pop()
        if name in found or f"{name}.".startswith(_NOT_COMPUTATION):
            continue
        found.add(name)
        queue.extend(_imports(name))
    return found


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
