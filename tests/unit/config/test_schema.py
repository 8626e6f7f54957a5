"""The shipped JSON schema is the models' own, and configuration stays light."""

import json
import subprocess
import sys

from plans import PARAMS
from processes import python


def test_the_shipped_schema_is_up_to_date():
    # In a process of its own: other tests install components.
    command = [sys.executable, "-m", "vsepp.cli", "schema"]
    generated = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shipped = (PARAMS / "schema.json").read_text(encoding="utf-8")
    assert generated == shipped, "run `vsepp schema --output params/schema.json`"


def test_importing_the_configuration_is_quick_and_imports_no_torch_and_no_pandas():
    probe = (
        "import sys, time; before = time.process_time(); import vsepp.config; print(time.process_time() - before, "
        "*(m for m in ('torch', 'pandas', 'numpy', 'snakemake', 'dvc') if m in sys.modules))"
    )
    taken = []
    # Processor time, and more than once: the machine may be busy with other tests.
    while len(taken) < 8 and not (taken and taken[-1] < 1.0):
        seconds, *imported = python(probe).split()
        assert imported == []
        taken.append(float(seconds))
    assert taken[-1] < 1.0  # torch takes more than two


def test_every_key_of_an_entry_says_what_it_is():
    schema = json.loads((PARAMS / "schema.json").read_text(encoding="utf-8"))
    files = {"tables.yaml": ("FigureKeys", "TableKeys"), "claims.yaml": ("ClaimKeys",)}
    plain = {"title", "caption", "heading", "kind", "groups"}
    for file, names in files.items():
        for name in names:
            properties = schema[f"params/papers/*/{file}"]["$defs"][name]["properties"]
            assert [
                key for key, said in properties.items() if not said.get("description") and key not in plain
            ] == []
