"""Configuration stays light."""

from processes import python


def test_importing_the_configuration_imports_no_torch_and_no_pandas():
    heavy = {"torch", "pandas", "numpy", "snakemake", "dvc"}
    assert python(f"import sys, vsepp.pipeline; print(sys.modules.keys() & {heavy})") == "set()\n"


def test_laying_out_a_plan_imports_all_kinds_of_figures_and_claims_and_nothing_that_draws():
    probe = (
        "import sys; from vsepp.pipeline.planner import make_plan; make_plan('params', {'papers': ['vsepp', 'goal']}); "
        "print('vsepp.report.figures.curves' in sys.modules, 'vsepp.report.claims' in sys.modules, "
        "*(m for m in ('torch', 'pandas', 'matplotlib', 'scipy', 'PIL', 'jinja2') if m in sys.modules))"
    )
    assert python(probe).split() == ["True", "True"]


def test_steps_that_compute_with_no_network_import_no_torch():
    kinds = ("scenes", "corpus", "tokens", "store", "pictures", "report")
    probe = (
        "import sys; from importlib import import_module; from vsepp.pipeline.planner import make_plan; "
        f"rows = [row for row in make_plan('params', {{}}).table.values() if row.kind in {kinds}]; "
        "[import_module(name) for row in rows for name in row.step.modules(row.spec)]; "
        "import vsepp.features.published, vsepp.features.captions; "
        "print(*sorted({row.kind for row in rows}), *(sys.modules.keys() & {'torch', 'nltk'}))"
    )
    assert python(probe).split() == sorted(kinds)
