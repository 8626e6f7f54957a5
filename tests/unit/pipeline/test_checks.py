"""A mistake in `params/` is named with its file, entry, key and value: one case of each mechanism."""

import re
from dataclasses import replace

import pytest
from plans import PARAMS, edit, refused

from vsepp.pipeline.planner import make_plan

RUNS, TABLES, RELEASED, CLAIMS = (
    f"papers/vsepp/{name}.yaml" for name in ("runs", "tables", "released", "claims")
)
COCO = {"base": "vsepp", "dataset": "coco", "trainset": "RC", "protocols": ["1K"]}

# Run → its entry, and what names its mistake. The mistakes of one stage are reported at once.
OF_ONE_KEY = {
    "late": ({**COCO, "epochs": "ten"}, "late.epochs: got 'ten'"),
    "red": ({**COCO, "colour": "red"}, "red.colour: unknown key"),
}
OF_BASES = {
    "orphan": ({"base": "nobody"}, "orphan: base: got 'nobody'"),
    "a": ({"base": "b"}, "a → b → a"),
    "b": ({"base": ["vsepp", "a"]}, "b → a → b"),
    "blind": ({"base": "vsepp", "trainset": "RC"}, "blind: no layer gives dataset"),
    "new": ({**COCO, "loss": "nca"}, "runs.new.loss: no loss is named 'nca'"),
    "hot": ({**COCO, "loss": {"name": "max_of_hinges", "temperature": 1}}, "option temperature of loss max_of_hinges"),
}  # fmt: skip
OF_RUNS = {
    "rv": ({**COCO, "dataset": "flickr", "trainset": "RC+rV"}, "rv.trainset: got 'RC+rV'"),
    "self": ({**COCO, "finetune_from": "self"}, "self.finetune_from: got 'self'"),
    "twice": ({**COCO, "finetune_from": "coco-vse0-rc-rv-ft"}, "twice.finetune_from: coco-vse0-rc-rv-ft"),
    "other": ({**COCO, "finetune_from": "coco-vsepp-rc-rv"}, "other.trainset: got 'RC', but coco-vsepp-rc-rv"),
    "fed": ({**COCO, "feeds": {"1.7": "1K"}}, "fed.feeds: row 1.7"),
    "unknown": ({**COCO, "feeds": {"9.9": "1K"}}, "unknown.feeds: row 9.9"),
    "idle": ({**COCO, "protocols": []}, "idle.protocols: got none"),
    "folds": ({**COCO, "dataset": "flickr", "protocols": ["5x1K"]}, "5x1K needs 5 "),
}  # fmt: skip
OF_ENSEMBLES = {
    "absent": ({**COCO, "ensemble": ["coco-vse0-rc", "nothing"]}, "absent.ensemble: got 'nothing'"),
    "across": ({**COCO, "ensemble": ["coco-vse0-rc", "flickr-vse0-rc"]}, "across.ensemble: flickr-vse0-rc"),
}  # fmt: skip
OF_SETS = {
    "regions": ({**COCO, "trainset": "regions"}, "regions.image_pooling: got none"),
    "states": ({**COCO, "text": "bigru"}, "states.caption_pooling: got none"),
    "depth": (
        {
            **COCO, "trainset": "regions", "image_pooling": "mean", "text": "bigru", "caption_pooling": "mean",
            "matcher": {"name": "fusion", "k": 201},
        },
        "depth.matcher.k: got 201",
    ),
}  # fmt: skip
WRONG = {"keys": OF_ONE_KEY, "bases": OF_BASES, "runs": OF_RUNS, "ensembles": OF_ENSEMBLES, "sets": OF_SETS}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_runs_are_all_named_at_once(params, wrong):
    edit(params / RUNS, {run: entry for run, (entry, _) in wrong.items()})
    lines = refused(params).splitlines()
    for run, (_, named) in wrong.items():
        (line,) = [line for line in lines if re.search(rf": runs\.{run}[:.)]", line)]
        assert named in line and f"{params / RUNS}: " in line
    assert lines[0].startswith(f"{len(wrong)} mistakes")


def test_mistakes_of_several_files_are_told_together(params):
    edit(params / RUNS, {"coco-vse0-1c": {"epochs": "ten"}})
    edit(params / "presets/mini.yaml", {"evaluation": {"fold_size": 0}})
    text = refused(params)
    assert text.startswith("2 mistakes")
    assert f"{params / 'presets/mini.yaml'}: evaluation.fold_size: got 0" in text


def test_a_role_that_the_preset_says_nothing_of_is_named_and_one_left_empty_leaves_its_runs_out(params):
    edit(params / RUNS, {"odd": {**COCO, "dataset": "third"}})
    edit(params / TABLES, {"default_encoder": "vggg"})
    text = refused(params)
    assert f"{params / RUNS}: dataset third: of odd" in text
    assert f"{params / TABLES}: default_encoder: got 'vggg'" in text
    edit(params / TABLES, {"default_encoder": "vgg"})
    edit(params / "presets/mini.yaml", {"corpora": {"third": None}})
    assert "odd" not in make_plan(params).models


def test_runs_of_papers_that_are_not_reproduced_are_named(params):
    mine = params / "papers/mine/runs.yaml"
    mine.parent.mkdir()
    mine.write_text("alone: {base: coco-vsepp-1c, protocols: [1K]}")
    edit(params / TABLES, {"figures": {"figure2a": {"runs": ["alone"], "labels": ["A"]}}})
    assert f"{params / TABLES}: figures.figure2a: alone is a run of {mine}" in refused(params)
    edit(mine, {"coco-vse0-1c": {"base": "vse0"}})
    assert f"{mine}: coco-vse0-1c: is also in {params / RUNS}" in refused(params, papers=["vsepp", "mine"])


def test_only_papers_that_are_asked_for_or_inherited_from_are_parsed(params):
    broken = params / "papers/goal/runs.yaml"
    broken.write_text(broken.read_text() + "\nwrong: {base: [\n")
    assert "coco-vsepp-1c" in make_plan(params).models
    assert f"{broken}: not valid YAML" in refused(params, papers=["goal"])
    # What goal-coco inherits from stands there.
    edit(params / RUNS, {"odd": {"base": "goal-coco", "protocols": ["1K"]}})
    assert f"{broken}: not valid YAML" in refused(params)


def test_wrong_tables_figures_and_released_checkpoints_are_all_named_at_once(params):
    rows = {
        "9.9": "tables.a: row 9.9 ",
        "nobody": "tables.b: nobody is no run",
        "vsepp": "tables.c: vsepp is abstract",
    }
    named = {"title": "T", "caption": "C.", "dataset": "coco", "trainset": True}
    groups = (
        [{"heading": "H", "rows": [row if "." in row else {"run": row, "protocol": "1K"}]}] for row in rows
    )
    tables = {name: {**named, "groups": group} for name, group in zip("abc", groups, strict=True)}
    edit(params / TABLES, {"tables": tables, "figures": {"figure2b": {"baseline": "someone"}}})
    edit(params / RELEASED, {"mine": {"run": "nobody", "checkpoint": "c", "vocabulary": "v"}})
    edit(params / "presets/mini.yaml", {"tables": {"vsepp": ["table1", "table9"]}})
    text = refused(params)
    assert text.startswith("6 mistakes")
    for mistake in (
        *(f"{params / TABLES}: {row}" for row in rows.values()),
        f"{params / TABLES}: figures.figure2b: someone",
        f"{params / RELEASED}: mine.run: got 'nobody'",
        f"{params / 'presets/mini.yaml'}: tables.vsepp: got 'table9'",
    ):
        assert mistake in text


WORDS = {"title": "T", "caption": "C."}
CURVES = {
    "kind": "curves", **WORDS, "dataset": "flickr", "metrics": ["rsum"], "runs": ["flickr-vsepp-rc"], "labels": ["L"]
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "entry", "named"),
    [
        ("new", {**CURVES, "kind": "bars"}, "new.kind: got 'bars'"),
        ("new", {**CURVES, "labels": ["A", "B"]}, "new: labels: got 2"),
        ("Gaps", CURVES, "Gaps: got 'Gaps'"),  # a file of the report's own
        ("table1", CURVES, "table1: "),
        ("../up", CURVES, "../up: got '../up'"),
    ],
)
def test_a_wrong_figure_is_named(params, name, entry, named):
    edit(params / TABLES, {"figures": {name: entry}})
    assert f"{params / TABLES}: figures.{named}" in refused(params)


CLAIM = {"claim": "C.", "place": "P", "kind": "difference", "protocol": "1K", "published": {"i2t_r1": 1}}
PAIR = ["coco-vsepp-1c", "coco-vse0-1c"]


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        ({"runs": ["coco-vsepp-1c", "nobody"]}, "new: nobody"),
        ({"runs": PAIR, "protocol": "5K"}, "new.protocol: coco-vsepp-1c has "),
        ({"runs": PAIR, "row": "1.1"}, "new: runs: expected 1, got 2"),
        ({"runs": PAIR[:1], "row": "9.9"}, "new.row: published.csv .*'9.9'"),
        ({"runs": PAIR, "published": {"i2t_r1": float("nan")}}, "new.published.i2t_r1: got nan"),
        ({"runs": {2: PAIR[0]}, "kind": "best_value", "best": [2, 64]}, "new: runs: "),
        ({"runs": PAIR[:1] * 2}, "new: runs: coco-vsepp-1c"),
    ],
)
def test_a_wrong_claim_is_named(params, claim, named):
    edit(params / CLAIMS, {"new": {**CLAIM, **claim}})
    assert re.search(f"{params / CLAIMS}: claims.{named}", refused(params))


STUDY = "papers/flickr8k_study/claims.yaml"
STUDIED = {"preset": "flickr8k", "papers": ["flickr8k_study"]}
SLIGHT = {"quotes": "vsepp/negative-set-2", "runs": ["f8k-vsepp-rc-neg2", "f8k-vse0-rc"], "protocol": "1K"}


def test_a_claim_that_quotes_a_papers_claim_has_its_rule(params):
    entries = {"new": {**SLIGHT, "place": "VSE++, Section 3.6"}, "own": SLIGHT}
    edit(params / STUDY, entries)
    claims = make_plan(params, STUDIED).parameters.papers["flickr8k_study"].claims
    new, quoted = claims["new"], make_plan(params).parameters.papers["vsepp"].claims["negative-set-2"]
    assert new == replace(quoted, runs=new.runs, place=new.place, quotes=new.quotes) and new.at_most == 5
    assert claims["own"].place == "", "without a place it is a comparison of one's own"


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"at_most": 50}, "at_most: got 50"), ({"quotes": "../../x"}, "quotes: got '../../x'")],
)
def test_what_a_claim_states_otherwise_than_the_claim_that_it_quotes_is_named(params, changes, named):
    edit(params / STUDY, {"new": {**SLIGHT, **changes}})
    assert f"{params / STUDY}: claims.new.{named}" in refused(params, **STUDIED)


DATA = {"preset": "paper", "label": "x"}


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"only": "nothing-*"}, r"only: 'nothing-\*'"),
        ({"archives": "/no/such/folder"}, "archives: got '/no/such/folder'"),
        ({"preset": "huge"}, "presets/huge.yaml: "),
        ({"seeds": [1, 0, 1]}, "--config: seeds: seed 1 "),
        ({"papers": "vsep"}, "did you mean vsepp?"),
        ({"label": "x", "sedes": [0]}, "did you mean seeds?"),
        ({"label": "a" * 300}, "100 "),
        ({"label": "x", "runs": {"nobody": {"epochs": 3}}}, "--config: runs.nobody: "),
        ({"label": "x", "runs": {"default": {"learning_rate": float("inf")}}}, "default.learning_rate: got inf"),
        ({"label": "x", "components": {"text": {"gru": {"dim": 7}}}}, "runs.coco-vse0-1c.joint_dim: got 128 .*dim 7"),
        ({"label": "x", "encoders": {"vgg": {"architecture": "keras/vgg"}}}, "encoders.vgg: .*'keras'"),
        ({"label": "x", "encoders": {"vgg": {"options": {"depth": 3}}}}, "encoders.vgg: option depth"),
        ({"label": "x", "encoders": {"vgg": {"weights": "pip"}}}, "encoders.vgg.weights: got 'pip'"),
        ({"label": "x", "encoders": {"vgg": {"input_size": 64}}}, "encoders.vgg.input_size: got 64.* 46 "),
        ({"label": "x", "corpora": {"coco": {"dataset": "imagenet"}}}, "corpora.coco.dataset: got 'imagenet'"),
        ({"label": "x", "evaluation": {"fold_size": 201}}, "evaluation.fold_size: got 201.* 1000 "),
        ({**DATA, "corpora": {"coco": {"dataset": "scenes_coco"}}}, "`scenes`.* coco, "),
        ({**DATA, "datasets": {"coco2014": {"files": {"splits": "nothing.zip"}}}}, "coco2014.files.splits: got 'nothing.zip'"),
        ({**DATA, "datasets": {"coco2014": {"reader": "captions_csv"}}}, "datasets.coco2014.files: .*captions and images"),
        ({**DATA, "encoders": {"vgg": {"weights": "file/../vgg.pth"}}}, "vgg.weights: got 'file/../vgg.pth'"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_named(overrides, named):
    assert re.search(named, refused(PARAMS, **overrides))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"- a\n- b\n", ": expected keys and values"),
        (b"a: [1\n", ": not valid YAML"),
        (b"{}\n", ""),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(params, text, named):
    (params / RUNS).write_bytes(text)
    assert f"{params / RUNS}{named}" in refused(params)
    (params / RUNS).unlink()
    assert f"{params / RUNS}: no such file" in refused(params)
