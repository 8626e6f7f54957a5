"""The shipped JSON schema is the models' own, and configuration stays light."""

import difflib
import json
import resource
import subprocess
import sys
from pathlib import Path

from vsepp.config.describe import json_schema

ROOT = Path(__file__).resolve().parents[3]


def test_the_shipped_schema_is_up_to_date():
    shipped = (ROOT / "params" / "schema.json").read_text()
    generated = json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    difference = "".join(
        difflib.unified_diff(
            shipped.splitlines(True), generated.splitlines(True), "params/schema.json", "models"
        )
    )
    assert not difference, f"run `vsepp schema --output params/schema.json`:\n{difference}"


def test_importing_the_configuration_imports_no_torch_and_no_pandas():
    probe = "import sys, vsepp.config; print([m for m in ('torch', 'pandas', 'numpy', 'snakemake') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_importing_the_configuration_takes_under_half_a_second():
    def cpu_seconds(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, least of three: the machine may be busy with other tests.
    assert min(cpu_seconds("import vsepp.config") - cpu_seconds("pass") for _ in range(3)) < 0.5
