"""What manifests should say follows from the plan, for every preset."""

import dataclasses
from pathlib import Path

import pytest

from vsepp.config import make_plan
from vsepp.config.artefacts import PHASES, expected_artefacts
from vsepp.spec import to_dict

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture(scope="module", params=["mini", "flickr8k", "paper"])
def plan(request):
    return make_plan(PARAMS, {"preset": request.param})


@pytest.fixture(scope="module")
def expected(plan):
    return expected_artefacts(plan)


def test_every_artefact_of_the_plan_is_expected_once(plan, expected):
    folders = [artefact.folder for artefact in expected]
    assert len(folders) == len(set(folders))
    of_models = sum(len(plan.seeds_of(model)) for model in plan.models)
    shared = (
        plan.corpora,
        plan.tokens,
        plan.stores,
        plan.encoders,
        plan.features,
        plan.precomputed,
        plan.tapes,
    )
    assert len(folders) == sum(map(len, shared)) + bool(plan.scenes) + 3 * of_models


def test_targets_lie_in_their_folders(expected):
    for artefact in expected:
        assert artefact.target == artefact.folder or artefact.target.parent == artefact.folder


def test_phases_follow_each_other(expected):
    order = [PHASES.index(artefact.phase) for artefact in expected]
    assert order == sorted(order)
    assert set(order) == set(range(len(PHASES)))


def test_what_an_artefact_is_made_from_is_made_before_it(plan, expected):
    made = {artefact.folder: k for k, artefact in enumerate(expected)}
    raw = {path for path in plan.encoder_files.values()}
    for k, artefact in enumerate(expected):
        for role, path in artefact.inputs.items():
            if path in raw:
                continue
            maker = made.get(path, made.get(path.parent))
            assert maker is not None, (artefact.folder, role)
            # A fine-tuned run is listed where it stands in runs.yaml.
            assert maker < k or (artefact.phase == expected[maker].phase == "models"), (artefact.folder, role)


def test_what_dvc_does_not_keep_is_large_and_can_be_made_again(expected):
    assert {artefact.folder.parent.name for artefact in expected if not artefact.versioned} <= {
        "stores", "tapes", "resources",
    }  # fmt: skip
    assert any(not artefact.versioned for artefact in expected)


def test_a_run_is_held_against_its_own_spec_and_seed():
    plan = make_plan(PARAMS, {"seeds": [0, 3], "label": "x"})
    by_folder = {artefact.folder: artefact for artefact in expected_artefacts(plan)}
    for name, run in plan.runs.items():
        for seed in (0, 3):
            artefact = by_folder[plan.variant_results / "runs" / name / f"seed-{seed}"]
            assert artefact.spec == to_dict(run.specs[seed])
            assert (
                artefact.spec["init_seed"]
                != by_folder[artefact.folder.with_name(f"seed-{3 - seed}")].spec["init_seed"]
            )


def test_a_changed_run_changes_what_is_expected_of_it_and_of_what_it_is_read_by():
    def told(config):
        return {a.folder: dataclasses.astuple(a) for a in expected_artefacts(make_plan(PARAMS, config))}

    before = told({"label": "x"})
    after = told({"label": "x", "runs": {"flickr-vsepp-rc-ft": {"margin": 0.1}}})
    assert before.keys() == after.keys()
    changed = {folder for folder in before if before[folder] != after[folder]}
    assert {folder.parent.name for folder in changed} == {"flickr-vsepp-rc-ft"}
    assert {folder.parent.parent.name for folder in changed} == {"runs", "embeddings"}


def test_another_place_of_raw_files_changes_no_expectation_but_the_place(tmp_path):
    plan = make_plan(PARAMS, {"preset": "paper"})
    moved = make_plan(PARAMS, {"preset": "paper", "archives": str(tmp_path)})
    for one, other in zip(expected_artefacts(plan), expected_artefacts(moved), strict=True):
        assert (one.folder, one.code) == (other.folder, other.code)
        keys = one.spec.keys() - set(one.elsewhere)
        assert {key: one.spec[key] for key in keys} == {key: other.spec[key] for key in keys}
