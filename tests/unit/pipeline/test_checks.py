"""Every mistake that a user can make in `params/` is named with its file, run, key, value and what is accepted."""

import datetime
import re
from dataclasses import replace
from pathlib import Path

import pytest
from plans import PARAMS, copied, edit, refused

from vsepp.pipeline.planner import make_plan

RUNS, TABLES, RELEASED, CLAIMS = (
    f"papers/vsepp/{name}.yaml" for name in ("runs", "tables", "released", "claims")
)
COCO = {"base": "vsepp", "dataset": "coco", "trainset": "RC", "protocols": ["1K"]}

# Run → its entry, and what is said of it. The mistakes of one stage are reported at once.
OF_ONE_KEY = {
    "late": ({**COCO, "epochs": "ten"}, "late.epochs: got 'ten'; input should be a valid integer"),
    "red": ({**COCO, "colour": "red"}, "red.colour: unknown key; known here are absolute, abstract, base, "),
    "few": ({**COCO, "negative_set": 1}, "few.negative_set: got 1; input should be greater than or equal to 2"),
    "mixed": ({**COCO, "trainset": "2C"}, "mixed.trainset: got '2C'; input should be '1C', '10C', 'RC', "),
}  # fmt: skip
OF_BASES = {
    "orphan": ({"base": "nobody"}, "orphan: base: got 'nobody', which is not an entry of any paper"),
    "odd": ({"base": "odd"}, "odd: inherits from itself: odd → odd"),
    "a": ({"base": "b"}, "a: inherits from itself: a → b → a"),
    "b": ({"base": ["vsepp", "a"]}, "b: inherits from itself: b → a → b"),
    "blind": ({"base": "vsepp", "trainset": "RC"}, "blind: no layer gives dataset"),
    "plain": ({"dataset": "coco", "trainset": "RC"}, "plain: no layer gives loss, system"),
    "new": (
        {**COCO, "loss": "nca"},
        "runs.new.loss: no loss is named 'nca'; there are ",
    ),
    "hot": (
        {**COCO, "loss": {"name": "max_of_hinges", "temperature": 1}},
        "runs.hot.loss: option temperature of loss max_of_hinges: unknown key; known here are curriculum, margin, ",
    ),
    "wide": (
        {**COCO, "loss": {"name": "max_of_hinges", "margin": "wide"}},
        "runs.wide.loss: option margin of loss max_of_hinges: got 'wide'; input should be a valid number",
    ),
    "narrow": (
        {**COCO, "loss": {"name": "sum_of_hinges", "margin": 0}},
        "runs.narrow.loss: option margin of loss sum_of_hinges: got 0; input should be greater than 0",
    ),
    "endless": (
        {**COCO, "loss": {"name": "goal", "offset": float("nan")}},
        "runs.endless.loss: option offset of loss goal: got nan; input should be a finite number",
    ),
}
OF_RUNS = {
    "rv": ({**COCO, "dataset": "flickr", "trainset": "RC+rV"}, "rv.trainset: got 'RC+rV'; scenes_flickr has no restval images (rV)"),
    "self": ({**COCO, "finetune_from": "self"}, "self.finetune_from: got 'self'; expected the id of another run"),
    "twice": ({**COCO, "finetune_from": "coco-vse0-rc-rv-ft"}, "twice.finetune_from: coco-vse0-rc-rv-ft is fine-tuned itself; expected a frozen run"),
    "centre": ({**COCO, "trainset": "1C", "finetune_from": "coco-vsepp-1c"}, "centre.trainset: got '1C'; a fine-tuned run needs images: RC or RC+rV"),
    "other": ({**COCO, "finetune_from": "coco-vsepp-rc-rv"}, "other.trainset: got 'RC', but coco-vsepp-rc-rv, which it starts from, has 'RC+rV'"),
    "words": ({**COCO, "finetune_from": "coco-vsepp-rc", "vocabulary_threshold": 9}, "words.vocabulary_threshold: got 9, but coco-vsepp-rc, which it starts from, has 4"),
    "fed": ({**COCO, "feeds": {"1.7": "1K"}}, "fed.feeds: row 1.7 is already fed by coco-vsepp-rc"),
    "unknown": ({**COCO, "feeds": {"9.9": "1K"}}, "unknown.feeds: row 9.9 is not in "),
    "biased": ({**COCO, "caption_projection": False, "joint_dim": 128, "caption_bias": True}, "biased.caption_bias: got true"),
    "idle": ({**COCO, "protocols": []}, "idle.protocols: got none, and the run feeds no row; name some to evaluate it under"),
    "folds": ({**COCO, "dataset": "flickr", "protocols": ["5x1K"]}, "protocol 5x1K needs 5 such folds, more than the 200 test images of scenes_flickr"),
}  # fmt: skip
OF_ENSEMBLES = {
    name: ({**COCO, "ensemble": ["coco-vse0-rc", member]}, f"{name}.ensemble: {said}")
    for name, member, said in (
        ("absent", "nothing", "got 'nothing'; expected another run"),
        ("nested", "absent", "absent is an ensemble itself"),
        ("ordered", "coco-order0-10c-rv", "coco-order0-10c-rv has similarity order"),
        ("across", "flickr-vse0-rc", "flickr-vse0-rc is evaluated on flickr; expected coco"),
    )
}
WRONG = {"keys": OF_ONE_KEY, "bases": OF_BASES, "runs": OF_RUNS, "ensembles": OF_ENSEMBLES}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_runs_are_all_named_at_once(params, wrong):
    edit(params / RUNS, {run: entry for run, (entry, _) in wrong.items()})
    text = refused(params)
    assert text.startswith(f"{len(wrong)} mistakes in the parameters:\n")
    for run, (_, said) in wrong.items():
        (line,) = [line for line in text.splitlines() if re.search(rf": runs\.{run}[:.)]", line)]
        assert said in line and f"{params / RUNS}: " in line


def test_mistakes_of_several_files_are_told_together(params):
    edit(params / RUNS, {"coco-vse0-1c": {"epochs": "ten"}})
    edit(params / "presets/mini.yaml", {"evaluation": {"fold_size": 0}})
    text = refused(params)
    assert "2 mistakes" in text
    assert f"{params / 'presets/mini.yaml'}: evaluation.fold_size: got 0; input should be greater" in text


@pytest.mark.parametrize(("key", "section"), [("dataset", "corpora"), ("encoder", "encoders")])
def test_a_role_that_the_preset_says_nothing_of_is_named_and_one_left_empty_leaves_its_runs_out(
    params, key, section
):
    edit(params / RUNS, {"odd": {**COCO, key: "third"}})
    said = f"{params / RUNS}: {key} third: of odd: {params / 'presets/mini.yaml'} has no {section}.third; give it"
    assert said in refused(params)
    edit(params / "presets/mini.yaml", {section: {"third": None}})
    assert "odd" not in make_plan(params).models


def test_a_role_that_a_table_shows_and_the_preset_says_nothing_of_is_named(params):
    edit(params / TABLES, {"tables": {"table1": {"dataset": "third"}}, "default_encoder": "vggg"})
    text, preset = refused(params), params / "presets/mini.yaml"
    for place, section, role in (
        ("tables.table1.dataset", "corpora", "third"),
        ("default_encoder", "encoders", "vggg"),
    ):
        said = f"{params / TABLES}: {place}: got {role!r}: {preset} has no {section}.{role}; give it"
        assert said in text


@pytest.mark.parametrize("name", ["runs.yaml", "tables.yaml", "published.csv"])
def test_a_paper_without_one_of_its_files_is_refused(params, name):
    (params / "papers/vsepp" / name).unlink()
    assert f"{params / 'papers/vsepp' / name}: no such file" in refused(params)


def test_what_papers_that_are_not_reproduced_have_is_named(params):
    mine = params / "papers/mine/runs.yaml"
    mine.parent.mkdir()
    mine.write_text("alone: {base: coco-vsepp-1c, protocols: [1K]}")
    edit(params / TABLES, {"figures": {"figure2a": {"runs": ["alone"], "labels": ["A"]}}})
    said = f"{params / TABLES}: figures.figure2a: alone is a run of {mine}, which is not reproduced; add mine to `papers`"
    assert said in refused(params)
    assert "papers: got 'nobodys', but there is no folder" in refused(params, papers=["nobodys"])
    edit(mine, {"coco-vse0-1c": {"base": "vse0"}})
    both = refused(params, papers=["vsepp", "mine"])
    said = f"{mine}: coco-vse0-1c: is also in {params / RUNS}; an id may be used by one paper only"
    assert said in both


def test_only_papers_that_are_asked_for_or_inherited_from_are_parsed(params):
    broken = params / "papers/goal/runs.yaml"
    broken.write_text(broken.read_text() + "\nwrong: {base: [\n")
    assert "coco-vsepp-1c" in make_plan(params).models
    assert f"{broken}: not valid YAML" in refused(params, papers=["goal"])
    # What goal-coco inherits from stands there.
    edit(params / RUNS, {"odd": {"base": "goal-coco", "protocols": ["1K"]}})
    assert f"{broken}: not valid YAML" in refused(params)
    # Layers may name the entries of any paper, and no others.
    edit(params / "presets/mini.yaml", {"runs": {"goal-finetunes": {"epochs": 4}}})
    edit(params / RUNS, {"odd": {"base": "vsepp", "dataset": "coco", "trainset": "1C", "protocols": ["1K"]}})
    said = f"{params / 'presets/mini.yaml'}: runs.goal-finetunes: no such entry in any paper's runs.yaml"
    assert said in refused(params)


def test_dimensions_must_be_equal_where_nothing_maps_one_to_the_other():
    text = refused(PARAMS, label="x", components={"text": {"gru": {"dim": 7}}})
    assert "runs.coco-vse0-1c.joint_dim: got 128 with a text encoder of dim 7; make them equal" in text


def test_wrong_tables_figures_and_released_checkpoints_are_all_named_at_once(params):
    rows = {
        "9.9": "tables.a: row 9.9 is not in ",
        "7.7": "tables.b: row 7.7 is trained here, but no run feeds it",
        "nobody": "tables.c: nobody is no run of any paper",
        "vsepp": "tables.d: vsepp is abstract: it is never trained, only inherited from",
    }
    named = {"title": "T", "caption": "C.", "dataset": "coco", "trainset": True}
    tables = {
        name: named
        | {"groups": [{"heading": "H", "rows": [row if "." in row else {"run": row, "protocol": "1K"}]}]}
        for name, row in zip("abcd", rows, strict=True)
    }
    figures = {"figure2b": {"baseline": "someone"}}
    edit(params / TABLES, {"tables": tables, "figures": figures})
    with (params / "papers/vsepp/published.csv").open("a") as stream:
        stream.write("7,7.7,trained" + "," * 16 + "\n")
    files = {"checkpoint": "c", "vocabulary": "v"}
    edit(
        params / RELEASED,
        {"mine": {"run": "nobody", **files}, "coco-vse0-1c": {"run": "coco-vse0-1c", **files}},
    )
    edit(params / "presets/mini.yaml", {"tables": {"vsepp": ["table1", "table9"]}})
    text = refused(params)
    assert text.startswith("8 mistakes")
    for said in (
        *(f"{params / TABLES}: {said}" for said in rows.values()),
        f"{params / TABLES}: figures.figure2b: someone is no run of any paper",
        f"{params / RELEASED}: mine.run: got 'nobody'; expected the id of a run",
        f"{params / RELEASED}: coco-vse0-1c: is already the id of a run; choose another name",
        f"{params / 'presets/mini.yaml'}: tables.vsepp: got 'table9'; {params / TABLES} has table1, table2, ",
    ):
        assert said in text


def test_what_only_the_authors_code_makes_wrong_of_a_released_models_run_is_told_under_any_fidelity(params):
    edit(params / "fidelity/code.yaml", {"runs": {"default": {"caption_pooling": "mean"}}})
    said = refused(params).splitlines()
    (line,) = [line for line in said if f"{params / RELEASED}: flickr-released-vse0, " in line]
    assert "fidelity code: flickr-vse0-1c.caption_pooling: text encoder gru " in line
    assert not [line for line in said if f"{params / RUNS}: " in line]


WORDS = {"title": "T", "caption": "C."}
CURVES = {
    "kind": "curves", **WORDS, "dataset": "flickr", "metrics": ["rsum"], "runs": ["flickr-vsepp-rc"], "labels": ["L"]
}  # fmt: skip
PLANE = {
    "kind": "constellations", "positive": [0, 1], "negatives": [[[0, 2]]], **WORDS, "labels": ["L"]
}  # fmt: skip


@pytest.mark.parametrize(
    "figure, said",
    [
        (
            {**CURVES, "metrics": ["i2t_foo"]},
            "figures.new.metrics.0: got 'i2t_foo'; input should be 'i2t_r1', ",
        ),
        (
            {**CURVES, "kind": "standings", "protocol": "1K", "metrics": ["i2t_medr"]},
            "figures.new.metrics.0: got 'i2t_medr'",
        ),
        (
            {**CURVES, "kind": "negative_set", "protocol": "7K"},
            "figures.new.protocol: got '7K'; input should be '1K', ",
        ),
        (
            {**PLANE, "negatives": [[]], "losses": ["max_of_hinges"]},
            "figures.new.negatives.0: got []; ",
        ),
        (
            {**CURVES, "kind": "bars"},
            "figures.new.kind: got 'bars'; input should be 'combinations', 'constellations', 'curves', ",
        ),
        (
            {**CURVES, "colour": "red"},
            "figures.new.colour: unknown key; known here are caption, dataset, kind, ",
        ),
        (PLANE, "figures.new.losses: missing"),
        ({**CURVES, "runs": {2: "flickr-vsepp-rc"}}, "figures.new.runs: got {"),
        ({**CURVES, "labels": ["A", "B"]}, "figures.new: labels: got 2; expected 1"),
        (
            {
                **WORDS,
                "kind": "examples",
                "dataset": "flickr",
                "protocol": "1K",
                "runs": ["flickr-vse0-rc"],
                "labels": ["L"],
            },
            "figures.new.runs: got [",
        ),
        (
            {**PLANE, "losses": ["none"]},
            "figures.new.losses.0: no loss is named 'none'; there are binomial_deviance, circle, goal, ",
        ),
        (
            {**PLANE, "losses": ["info_nce"]},
            "figures.new: losses: loss info_nce has no option `margin`, which is drawn",
        ),
        (
            {**CURVES, "dataset": "flikr"},
            "figures.new.dataset: got 'flikr': ",
        ),
    ],
)
def test_a_wrong_figure_is_named(params, figure, said):
    edit(params / TABLES, {"figures": {"new": figure}})
    assert said in refused(params)


TABLE = {**WORDS, "dataset": "coco", "groups": [{"heading": "H", "rows": ["1.6"]}]}


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [
        ("figures", "gaps", "figures.gaps: got 'gaps'; a report has files of this name of its own"),
        ("figures", "Gaps", "figures.Gaps: got 'Gaps'; a report has files"),
        ("tables", "tables", "tables.tables: got 'tables'; a report has files"),
        ("figures", "table1", "figures.table1: is also a table"),
        ("tables", "../up", "tables.../up: got '../up'"),
    ],
)
def test_an_entry_whose_files_would_be_overwritten_or_lie_elsewhere_is_refused(params, part, name, said):
    edit(params / TABLES, {part: {name: CURVES if part == "figures" else TABLE}})
    assert f"{params / TABLES}: {said}" in refused(params)


CLAIM = {"claim": "C.", "place": "P", "kind": "difference", "protocol": "1K", "published": {"i2t_r1": 1}}
PAIR = ["coco-vsepp-1c", "coco-vse0-1c"]


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"runs": ["coco-vsepp-1c", "nobody"]}, "claims.new: nobody is no run of any paper"),
        ({"runs": ["coco-vsepp-1c", "vsepp"]}, "claims.new: vsepp is abstract"),
        ({"runs": PAIR, "protocol": "5K"}, "claims.new.protocol: coco-vsepp-1c has protocols 1K, 5x1K, not 5K"),
        ({"runs": PAIR, "protocol": "2K"}, "claims.new.protocol: got '2K'"),
        ({"runs": PAIR, "row": "1.1"}, "claims.new: runs: expected 1, got 2"),
        ({"runs": PAIR[:1], "row": "9.9"}, "claims.new.row: published.csv prints no i2t_r1 of a row '9.9'"),
        ({"runs": PAIR, "kind": "no_difference", "row": "1.1"}, "claims.new.row: unknown key; known here are claim, kind, margin, "),
        ({"runs": PAIR, "kind": "proof"}, "claims.new.kind: got 'proof'"),
        ({"runs": PAIR, "published": {}}, "claims.new.published: got {}"),
        ({"runs": PAIR, "published": {"i2t_r1": float("nan")}}, "claims.new.published.i2t_r1: got nan"),
        (
            {"runs": PAIR, "kind": "crossing", "published": {"i2t_mapr": 5}},
            "claims.new.published.i2t_mapr: got 'i2t_mapr'",
        ),
        ({"runs": {2: PAIR[0], 128: PAIR[1]}, "kind": "best_value"}, "claims.new.best: missing"),
        ({"runs": {2: PAIR[0]}, "kind": "best_value", "best": [2, 64]}, "claims.new: runs: expected size → run"),
        ({"runs": PAIR[:1] * 2}, "claims.new: runs: coco-vsepp-1c is compared with itself"),
        ({"runs": PAIR * 2, "kind": "difference_of_differences"}, "claims.new: runs: a difference is compared with itself"),
    ],
)  # fmt: skip
def test_a_wrong_claim_is_named(params, claim, said):
    edit(params / CLAIMS, {"new": {**CLAIM, **claim}})
    text = refused(params)
    assert str(params / CLAIMS) in text
    assert said in text


STUDY = "papers/flickr8k_study/claims.yaml"
SLIGHT = {"quotes": "vsepp/negative-set-2", "runs": ["f8k-vsepp-rc-neg2", "f8k-vse0-rc"], "protocol": "1K"}


def test_a_claim_that_quotes_a_papers_claim_has_its_rule(params):
    edit(params / STUDY, {"new": {**SLIGHT, "place": "VSE++, Section 3.6"}})
    claims = make_plan(params, {"preset": "flickr8k", "papers": ["flickr8k_study"]}).parameters.papers
    new, theirs = claims["flickr8k_study"].claims["new"], make_plan(params).parameters.papers["vsepp"].claims
    own = {"runs": new.runs, "place": new.place, "quotes": new.quotes}
    assert new == replace(theirs["negative-set-2"], **own) and new.at_most == 5
    # Without a place it is a comparison of one's own.
    edit(params / STUDY, {"other": SLIGHT})
    found = make_plan(params, {"preset": "flickr8k", "papers": ["flickr8k_study"]}).parameters.papers
    assert found["flickr8k_study"].claims["other"].place == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"at_most": 50}, "at_most: got 50; vsepp/negative-set-2, which it quotes, has 5"),
        ({"margin": 3}, "margin: got 3; vsepp/negative-set-2, which it quotes, has none"),
        ({"sign": 1}, "sign: got 1; "),
        ({"kind": "no_difference"}, "kind: got 'no_difference'; "),
        ({"published": {"i2t_r1": -30}}, "published: got {'i2t_r1': -30}; "),
        (
            {"quotes": "vsepp/negative-set-3"},
            "quotes: got 'vsepp/negative-set-3'; expected <paper>/<claim>: ",
        ),
        ({"quotes": "../../x"}, "quotes: got '../../x'; expected <paper>/<claim>: "),
    ],
)
def test_what_a_claim_states_otherwise_than_the_claim_that_it_quotes_is_named(params, changes, said):
    edit(params / STUDY, {"new": {**SLIGHT, **changes}})
    found = refused(params, preset="flickr8k", papers=["flickr8k_study"])
    assert f"{params / STUDY}: claims.new.{said}" in found


DATA = {"preset": "paper", "label": "x"}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"only": "nothing-*"}, "only: 'nothing-*' matches no run of preset mini; there are coco-vse0-1c, "),
        ({"archives": "/no/such/folder"}, "archives: got '/no/such/folder', which is no folder"),
        ({"preset": "huge"}, "presets/huge.yaml: no such file; there are flickr8k, mini, own, paper"),
        ({"fidelity": "poster"}, "fidelity: got 'poster'"),
        ({"seeds": []}, "seeds: got []"),
        ({"seeds": 3}, "--config: seeds: got 3; input should be a valid list; write 'seeds=[0,1,2]' for three trainings of each"),
        ({"seeds": [0, "x"]}, "--config: seeds.1: got 'x'; input should be a valid integer; write"),
        ({"only": 3}, "--config: only: got 3; input should be a valid list; write 'only=[coco-vse0-1c,flickr-*]'"),
        ({"fidelity": ["paper"]}, "--config: fidelity: got ['paper']; input should be 'paper' or 'code'; write fidelity=code"),
        ({"papers": "vsep"}, "vsepp; did you mean vsepp?"),
        ({"label": "x", "sedes": [0]}, "seeds, serif, sources, tables; did you mean seeds?"),
        ({"label": "x", "runs": {"default": {"epoch": 3}}}, "; did you mean epochs?"),
        ({"label": "x", "epochs": 3}, "epochs: unknown key; known are"),
        ({"label": "x", "runs": 3}, "runs: got 3; expected keys and values, such as runs='{name: "),
        ({"label": "x", "runs": {"nobody": {"epochs": 3}}}, "--config: runs.nobody: no such entry"),
        ({"label": "x", "tables": {"vsepp": ["table9"]}}, "--config: tables.vsepp: got 'table9'; "),
        ({"label": "x", "encoders": {"vgg": {"architecture": "keras/vgg"}}}, "encoders.vgg: no image encoder is named 'keras'; there are lite, mini"),
        ({"label": "x", "encoders": {"vgg": {"options": {"depth": 3}}}}, "encoders.vgg: option depth of image encoder mini: unknown key"),
        ({"label": "x", "corpora": {"coco": {"dataset": "imagenet"}}}, "corpora.coco.dataset: got 'imagenet'; datasets.yaml has coco2014"),
        ({"label": "x", "corpora": {"coco": {"dataset": "scenes_coco", "first_images": {"train": 0}}}}, "first_images.train: got 0"),
        ({"label": "x", "evaluation": {"fold_size": 201}}, "evaluation.fold_size: got 201; protocol 5x1K needs 5 such folds, more than the 1000 test images of scenes_coco"),
        ({"label": "x", "corpora": {"coco": {"first_images": {"test": 10}}}, "evaluation": {"fold_size": 3}}, "got 3; protocol 5x1K needs 5 such folds, more than the 10"),
        ({"preset": "paper", "label": "x", "corpora": {"coco": {"dataset": "scenes_coco"}}}, "the preset's `scenes` has no layout coco, which scenes_coco has"),
        ({"preset": "paper", "label": "x", "encoders": {"vgg": {"weights": "scenes"}}}, "encoders.vgg.weights: got 'scenes'; there are no such weights of torchvision/vgg19"),
        ({"label": "x", "encoders": {"vgg": {"architecture": "mini/vgg_maxi"}}}, "encoders.vgg.weights: got 'scenes'; there are no such weights of mini/vgg_maxi"),
        ({"label": "x", "encoders": {"vgg": {"weights": "pip"}}}, "encoders.vgg.weights: got 'pip'; there are no such weights of mini/vgg_mini"),
        ({"preset": "flickr8k", "label": "x", "encoders": {"vgg": {"weights": "torchvision/DEFAULT"}}}, "vgg.weights: got 'torchvision/DEFAULT'; there are no such weights of lite/efficientnet_lite0"),
        ({**DATA, "datasets": {"coco2014": {"files": {"splits": "nothing.zip"}}}}, "coco2014.files.splits: got 'nothing.zip'; expected an entry of `sources`: "),
        ({**DATA, "datasets": {"coco2014": {"reader": "captions_csv"}}}, "datasets.coco2014.files: the reader captions_csv also needs captions and images"),
        ({**DATA, "datasets": {"coco2014": {"reader": "html"}}}, "datasets.coco2014.reader: no reader is named 'html'"),
        ({**DATA, "datasets": {"coco2014": {"precomputed": {"10C": "f30k_precomp"}}}}, "coco2014.precomputed.10C: got 'f30k_precomp'; expected an entry of published features"),
        ({**DATA, "datasets": {"coco2014": {"crops": "1C"}}}, "coco2014.crops: required by the reader precomp, and not allowed with any other reader"),
        ({**DATA, "sources": {"val2014.zip": {"sha256": "abc"}}}, "val2014.zip.sha256: got 'abc'"),
        ({**DATA, "sources": {"val2014.zip": {"mirrors": ["ftp://x"]}}}, "mirrors.0: got 'ftp://x'"),
        ({**DATA, "encoders": {"vgg": {"weights": "/data/vgg.pth"}}}, "vgg.weights: got '/data/vgg.pth'"),
        ({**DATA, "encoders": {"vgg": {"weights": "file/../vgg.pth"}}}, "vgg.weights: got 'file/../vgg.pth'"),
        ({"seeds": [True]}, "--config: seeds.0: got True; input should be a valid integer"),
        ({"seeds": [1, 0, 1]}, "--config: seeds: seed 1 is there twice"),
        ({"label": "a" * 300}, "aaa'; string should have at most 100 characters"),
        ({"label": datetime.date(2026, 1, 2)}, "--config: label: got a date"),
        ({"seeds": [2**63]}, "--config: seeds.0: got 9223372036854775808; "),
        ({"seeds": [-1]}, "--config: seeds.0: got -1; "),
        ({"archives": "~/none"}, f"archives: got '{Path.home()}/none', which is no folder"),
        ({"label": "x", "runs": {"default": {"seeds": [2, 2]}}}, "runs.default.seeds: seed 2 is there twice"),
        ({"label": "x", "runs": {"default": {"epochs": True}}}, "runs.default.epochs: got True; input should be a valid integer"),
        ({"label": "x", "runs": {"default": {"learning_rate": float("inf")}}}, "default.learning_rate: got inf; input should be a finite number"),
        ({"label": "x", "runs": {"vse0": {"loss": {"margin": True}}}}, "loss: option margin of loss sum_of_hinges: got True; input should be a valid number"),
        ({"label": "x", "encoders": {"vgg": {"std": [0.5, 0, 0.5]}}}, "encoders.vgg.std.1: got 0; input should be greater than 0"),
        ({"label": "x", "encoders": {"vgg": {"input_size": 64}}}, "encoders.vgg.input_size: got 64; images of a side of 46 have no such crop"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_named(overrides, said):
    assert said in refused(PARAMS, **overrides)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"- a\n- b\n", ": expected keys and values, got list"),
        (b"a: [1\n", ": not valid YAML: did not find expected"),
        (b"a: \xff\n", ": not UTF-8: line 1, byte 4"),
        (b"a: {}\nb: {}\na: {}\n", ": 'a' is given twice, in lines 1 and 3; keep one"),
        (b"A: {}\n", ": runs.A: got 'A'; string should match pattern"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(params, text, said):
    (params / RUNS).write_bytes(text)
    assert f"{params / RUNS}{said}" in refused(params)


def test_options_that_are_none_and_names_that_no_file_can_have_are_no_tracebacks(tmp_path):
    folder = copied(tmp_path)
    edit(folder / "presets" / "mini.yaml", {"components": {"loss": {"max_of_hinges": {"name": [1]}}}})
    said = refused(folder)
    assert (
        "mini.yaml: components.loss.max_of_hinges: " in said
        and "option name of loss max_of_hinges: unknown key" in said
    )
    folder = copied(tmp_path / "other")
    edit(folder / "config.yaml", {"archives": "x" * 9000})
    assert "config.yaml: archives: got 'xxx" in (said := refused(folder)) and len(said) < 3000
