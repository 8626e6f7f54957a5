"""Where the package unpickles: nowhere but where it is decided that it may."""

import ast
from pathlib import Path

import vsepp

PACKAGE = Path(vsepp.__file__).parent
# Tensors and plain values, by torch's list.
LOAD = {"models/weights.py"}
# A vocabulary of the released code, by a list of its own.
PICKLE = {"models/released.py"}
UNPICKLERS = {"cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "pickle", "_pickle"}


def unpickling(source):
    """What in a module can unpickle: names, calls without their safeguard."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from {alias.name.partition(".")[0] for alias in node.names} & UNPICKLERS
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in UNPICKLERS:
            yield node.module
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if called == "torch.load":
                yield "torch.load" if options.get("weights_only") == "True" else "torch.load of anything"
            if options.get("allow_pickle", "False") != "False" or "read_pickle" in called:
                yield called


def test_nothing_is_unpickled_but_where_it_is_decided_that_it_may():
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        for what in unpickling(path.read_text(encoding="utf-8")):
            modules.setdefault(what, set()).add(path.relative_to(PACKAGE).as_posix())
    assert modules == {"torch.load": LOAD, "pickle": PICKLE}
