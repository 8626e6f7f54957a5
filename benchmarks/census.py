"""How large the package is, and how many functions pass an image, a caption or the margin on.

    uv run python benchmarks/census.py            # of the package here
    uv run python benchmarks/census.py FOLDER     # of another copy of it

Lines and tokens are counted by Python's `tokenize`, without comments, docstrings and layout. A function
passes an image on if it takes, as an argument of one of the names below, an image or data made from it, up to
its ranks; captions likewise. It passes the margin on if it names it, as an argument, an attribute or a key:
between `runs.yaml` and a loss that takes it.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PASSED = {
    "image": {
        "image",
        "images",
        "pixels",
        "crops",
        "features",
        "store",
        "image_embeddings",
        "picture",
        "pictures",
    },
    "caption": {"caption", "captions", "text", "texts", "tokens", "ids", "words", "caption_embeddings"},
}
"""What is passed on → names of arguments."""
# Layers that a cell of a table does not depend on.
_ASIDE = ("apps", "scenes")
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def main(folder: Path) -> None:
    """Print the census of a package."""
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.py"))}
    lines, tokens = Counter[str](), Counter[str]()
    for file, tree in trees.items():
        part = _part(file, folder)
        counted = _size(file, tree)
        lines[part] += counted[0]
        tokens[part] += counted[1]
    print(f"{'package':<14}{'lines':>8}{'tokens':>9}")
    for part in sorted(lines):
        print(f"{part:<14}{lines[part]:>8,}{tokens[part]:>9,}")
    print(f"{'in all':<14}{lines.total():>8,}{tokens.total():>9,}")
    functions = [
        function
        for file, tree in trees.items()
        if _part(file, folder) not in _ASIDE
        for function in _functions(tree)
    ]
    for what, names in PASSED.items():
        print(
            f"functions that take {what} data: "
            f"{sum(bool(_arguments(function) & names) for function in functions)}"
        )
    print(f"functions that name the margin: {sum('margin' in _names(function) for function in functions)}")


def _part(file: Path, folder: Path) -> str:
    return file.relative_to(folder).parts[0].removesuffix(".py")


def _size(file: Path, tree: ast.Module) -> tuple[int, int]:
    """Lines of code and tokens of a module."""
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    stream = io.StringIO(file.read_text(encoding="utf-8"))
    kept = [
        token
        for token in tokenize.generate_tokens(stream.readline)
        if token.type not in _LAYOUT and token.start[0] not in docstrings
    ]
    return len({line for token in kept for line in range(token.start[0], token.end[0] + 1)}), len(kept)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _arguments(function: ast.FunctionDef) -> set[str]:
    arguments = function.args
    return {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _names(function: ast.FunctionDef) -> set[str]:
    """Names, attributes and texts in a function."""
    names = _arguments(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "vsepp")
