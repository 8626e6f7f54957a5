"""The table of artefacts: what is made from what, shared where parameters are equal and apart where they differ."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from plans import PARAMS, copied, edit, plan

from vsepp.base.errors import PHASES, VseppError
from vsepp.base.spec import Component, to_dict
from vsepp.pipeline.planner import make_plan
from vsepp.shipped.folders import encoder_weights


def inputs(plan, run, kind="run", seed=0):
    return plan.table[kind, f"{run}/seed-{seed}"].paths


def made_by(plan):
    """Kind and name of every artefact → all that decides whether it is made again."""
    return {key: (a.folder, a.digest) for key, a in plan.table.items()}


def changed(before, after):
    """Kinds of what two plans make differently, or only one of them makes; the report tells of all."""
    first, second = made_by(before), made_by(after)
    return {key[0] for key in first.keys() | second.keys() if first.get(key) != second.get(key)} - {"report"}


@pytest.fixture(scope="module", params=["mini", "flickr8k", "paper"])
def any_plan(request):
    return plan(preset=request.param)


def test_every_artefact_stands_once_in_the_order_of_the_data_flow(any_plan):
    table = any_plan.table
    folders = [artefact.folder for artefact in table.values()]
    assert len(set(folders)) == len(folders)
    assert all(key == (artefact.kind, artefact.name) for key, artefact in table.items())
    phases = [PHASES.index(artefact.phase) for artefact in table.values()]
    assert phases == sorted(phases)
    assert {artefact.phase for artefact in table.values()} == set(PHASES)
    assert set(any_plan.of_kind("run")) == set(any_plan.of_kind("evaluation"))
    assert set(any_plan.of_kind("run")) == {f"{run}/seed-0" for run in any_plan.models}


def test_what_an_artefact_is_made_from_is_made_before_it(any_plan):
    order = {artefact.folder: number for number, artefact in enumerate(any_plan.table.values())}
    fetched = {file.path for file in any_plan.files.values()}
    drawn = [artefact.folder for artefact in any_plan.of_kind("scenes").values()]
    for artefact in any_plan.table.values():
        for role, (path, raw) in artefact.inputs.items():
            if raw:
                shipped = path.is_relative_to(os.path.relpath(encoder_weights("mini").parent))
                assert shipped or path in fetched or any(path.is_relative_to(folder) for folder in drawn)
            elif role not in ("published", "expected", "expected/ranks"):  # files of the project
                assert order[any_plan.owner(path).folder] < order[artefact.folder], (
                    artefact.name,
                    role,
                )


def test_a_run_that_another_run_starts_from_and_the_other_run_go_before_all_runs():
    mini = plan()
    runs = mini.of_kind("run")
    tuned = [run for run in runs.values() if "init_from" in run.paths]
    chains = {run.name for run in tuned} | {mini.owner(run.paths["init_from"]).name for run in tuned}
    assert len(chains) == 16 and len(runs) == 33
    assert {mini.priority(runs[name]) for name in chains} == {7}
    assert {mini.priority(runs[name]) for name in runs.keys() - chains} == {6}
    # Of the way scenes, corpus, store, features, tape, run, fine-tuned run, evaluation, report.
    longest = {kind for (kind, _), row in mini.table.items() if mini.priority(row) == 7}
    assert longest == {"corpus", "features", "tape", "run", "evaluation", "report"}
    assert {kind for (kind, _), row in mini.table.items() if mini.priority(row) > 7} == {"scenes", "store"}


FROZEN = {"corpus", "tokens", "encoder", "features"}
LIVE = {"corpus", "tokens", "encoder", "eval_store"}


@pytest.mark.parametrize(
    ("overrides", "run", "read"),
    [
        ({}, "flickr-vsepp-1c", FROZEN),
        ({}, "coco-order0-10c-rv", FROZEN),
        ({}, "flickr-vsepp-rc", FROZEN | {"tape"}),
        ({}, "flickr-vsepp-rc-ft", LIVE | {"train_store", "init_from"}),
        ({"fidelity": "code"}, "flickr-vsepp-rc", LIVE | {"train_store"}),
        ({"fidelity": "code"}, "flickr-vsepp-1c", FROZEN),
        (
            {"label": "x", "runs": {"default": {"rc_features": "inline"}}},
            "coco-vse0-rc",
            FROZEN | {"train_store"},
        ),
    ],
)
def test_a_run_reads_only_what_it_needs(overrides, run, read):
    planned = plan(**overrides)
    assert set(inputs(planned, run)) == read
    assert set(inputs(planned, run, "evaluation")) == {"run"}
    for role, path in inputs(planned, run).items():
        kind = "run" if role == "init_from" else role.removeprefix("eval_").removeprefix("train_")
        assert planned.owner(path).kind == kind


def test_frozen_runs_of_a_corpus_and_encoder_share_one_tape_whatever_their_seed():
    paper = plan(preset="paper", seeds=[0, 3])
    tapes = paper.of_kind("tape")
    assert len(tapes) == 4
    of_flickr = [f"flickr-vsepp-rc-neg{size}" for size in (2, 8, 32, 64, 256, 512)] + ["flickr-vse0-rc"]
    for runs in (["coco-vse0-rc", "coco-vsepp-rc-rv"], of_flickr):
        assert len({inputs(paper, run, seed=seed)["tape"] for run in runs for seed in (0, 3)}) == 1
    tape = paper.owner(inputs(paper, "coco-vse0-rc")["tape"]).spec
    assert (tape.splits, tape.epochs, tape.draw) == (("train", "restval"), 30, 0)


def test_seeds_differ_in_the_seeds_alone():
    seeds = plan(seeds=[0, 3])
    for model in seeds.models.values():
        first, second = (to_dict(model.specs[seed]) for seed in (0, 3))
        assert {key for key in first if first[key] != second[key]} == {"init_seed", "order_seed"}
        assert (second["init_seed"], second["order_seed"]) == (3, 3)
    tuned = inputs(seeds, "coco-vse0-rc-rv-ft", seed=3)
    assert tuned["init_from"] == seeds.table["run", "coco-vse0-rc-rv/seed-3"].folder
    artefact = seeds.table["run", "coco-vse0-1c/seed-3"]
    assert artefact.spec == seeds.models["coco-vse0-1c"].specs[3]
    assert artefact.step.seed(artefact.spec) == 3


# An evaluation is of the run that lies where it reads one.
OF_IMAGES = {"corpus", "tokens", "store", "pictures", "features", "tape", "run"}
OF_ENCODER = {"encoder", "features", "tape", "run"}


@pytest.mark.parametrize(
    ("overrides", "kinds"),
    [
        ({"scenes": {"images": {"flickr": {"train": 801}}}}, OF_IMAGES | {"scenes"}),
        ({"corpora": {"coco": {"first_images": {"train": 800}}}}, OF_IMAGES),
        ({"encoders": {"vgg": {"precision": "bf16"}}}, OF_ENCODER | {"evaluation"}),
        ({"runs": {"coco-vse0-rc": {"epochs": 99}}}, {"tape", "run", "evaluation"}),
        ({"runs": {"default": {"vocabulary_threshold": 9}}}, {"tokens", "run", "evaluation"}),
        ({"evaluation": {"fold_size": 20}}, {"evaluation"}),
        ({"resources": {"threads": 3}}, set()),
    ],
)
def test_changed_parameters_make_new_artefacts_of_what_they_decide(overrides, kinds):
    assert changed(plan(label="x"), plan(label="x", **overrides)) == kinds


def test_choosing_runs_changes_no_artefact():
    whole, some = made_by(plan()), made_by(plan(only="coco-vsepp-rc"))
    assert {name for kind, name in some if kind == "run"} == {"coco-vsepp-rc/seed-0"}
    assert all(whole[key] == row for key, row in some.items() if key[0] != "report")
    assert {key for key in whole if key not in some} == {
        key for key in whole if key[0] in ("run", "evaluation") and "coco-vsepp-rc/" not in key[1]
    }


def test_order_embeddings_and_fine_tuning_have_the_papers_hyperparameters():
    """Those of other runs are held by records that are kept."""
    models = plan(preset="paper").models
    order0, tuned = (models[run].spec for run in ("coco-order0-10c-rv", "flickr-vse0-rc-resnet-ft"))
    assert order0.loss == Component("sum_of_hinges", {"margin": 0.05})
    assert (order0.schedule.learning_rate, order0.model.absolute) == (0.001, True)
    assert (tuned.schedule.learning_rate, tuned.schedule.epochs) == (0.00002, 15)


# Raw files.


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def paper_with(archives, **overrides):
    return make_plan(PARAMS, {"preset": "paper", "archives": str(archives), **overrides})


def test_the_paper_needs_seven_files_each_once_and_all_that_is_known_of_them_is_said():
    paper = plan(preset="paper")
    assert len(paper.files) == 7 and paper.downloads == paper.files
    for name, file in paper.files.items():
        assert file.path == Path("resources/downloads", name)
        assert file.spec.licence and file.spec.citation
        assert file.spec.mirrors or "archives" in file.spec.instructions
        if file.spec.sha256 and (digits := re.search(r"-([0-9a-f]{8})\.pth$", name)):
            assert file.spec.sha256.startswith(digits[1])


def test_a_folder_of_ones_own_is_looked_into_first_and_changes_places_alone(tmp_path):
    own = {
        "train2014.zip": "train2014.zip",
        "val2014.zip": "val2014",
        "annotations_trainval2014.zip": "annotations",
        "vgg19-dcbb9e9d.pth": "vgg19-dcbb9e9d.pth",
    }
    files = ("train2014.zip", "val2014/x.jpg", "annotations/captions_train2014.json", "vgg19-dcbb9e9d.pth")
    touch(tmp_path, *files)
    before, after = plan(preset="paper"), paper_with(tmp_path)
    assert {name: after.files[name].path for name in own} == {
        name: tmp_path / path for name, path in own.items()
    }
    assert set(after.downloads) == set(after.files) - set(own)
    assert made_by(before) == made_by(after)
    (corpus,) = [
        artefact.paths for artefact in after.of_kind("corpus").values() if artefact.spec.name == "coco2014"
    ]
    assert corpus["val_images"] == tmp_path / "val2014"
    assert corpus["splits"] == Path("resources/downloads/caption_datasets.zip")


def test_a_run_may_have_seeds_of_its_own_or_none():
    runs = {"coco-vse0-1c": {"seeds": [3, 1]}, "coco-vsepp-1c": {"seeds": []}}
    planned = plan(label="seeds", seeds=[0, 1], runs=runs)
    assert list(planned.models["coco-vse0-1c"].specs) == [3, 1]
    assert list(planned.models["coco-vsepp-rc"].specs) == [0, 1]
    assert "coco-vsepp-1c" not in planned.models, "it is not trained, and its row says so"
    with pytest.raises(VseppError, match=r"coco-vsepp-rc-rv-ft\.seeds: coco-vsepp-rc-rv.* no seed 0"):
        plan(label="seeds", runs={"coco-vsepp-rc-rv": {"seeds": [1]}, "coco-vsepp-rc-rv-ft": {"seeds": [0]}})


def test_published_features_are_taken_where_they_are_given_and_wanted(tmp_path):
    touch(tmp_path, "f30k_precomp/train_ims.npy")
    published = paper_with(tmp_path, fidelity="code")
    spec, read = published.models["flickr-vsepp-1c"].spec, inputs(published, "flickr-vsepp-1c-published")
    assert (spec.image_features, spec.vocabulary.splits) == ("precomputed", ("train", "val"))
    assert not spec.model.normalise_features  # used as they are
    assert set(read) == {"corpus", "tokens", "features"}
    assert published.owner(read["features"]).kind == "published"
    # Not where they are not given, not wanted, or of other crops or data.
    for other, run in (
        (paper_with(tmp_path), "flickr-vsepp-1c"),
        (plan(preset="paper", fidelity="code"), "flickr-vsepp-1c"),
        (published, "flickr-vsepp-rc"),
        (published, "coco-vsepp-1c"),
    ):
        spec = other.models[run].spec
        assert spec.image_features == "computed" and "encoder" in inputs(other, run)
        assert spec.vocabulary.splits != ("train", "val")


def test_released_checkpoints_are_planned_where_both_files_are_there(tmp_path):
    touch(tmp_path, "runs/f30k_vse++_vggfull/model_best.pth.tar")
    assert paper_with(tmp_path).of_kind("released") == {}
    touch(tmp_path, "vocab/f30k_vocab.pkl")
    planned, name = paper_with(tmp_path, seeds=[4, 5]), "flickr-released-vsepp-rc"
    model, run = planned.models[name], planned.models["flickr-vsepp-rc"]
    assert (model.released, list(model.specs), model.protocols) == ("flickr-vsepp-rc", [4], run.protocols)
    assert list(planned.of_kind("released")) == [f"{name}/seed-4"]
    # Tested as its authors did, whichever fidelity the runs have.
    assert [tested.spec.eval_store.resize for tested in (model, run)] == ["short_side", "squash"]
    artefact = planned.table["released", f"{name}/seed-4"]
    assert set(artefact.paths) == LIVE | {"checkpoint", "vocabulary"}
    assert inputs(planned, name, "evaluation", 4) == {"run": artefact.folder}
    tokens = planned.owner(artefact.paths["tokens"])
    assert (tokens.kind, tokens.paths["vocabulary"]) == ("tokens", artefact.paths["vocabulary"])


def test_rows_of_goal_on_vse_infinity_differ_by_the_loss_alone():
    models = plan(papers=["goal"], preset="paper").models
    for encoder, curriculum in (("butd", {"curriculum": 0.04}), ("wsl", {})):
        own = models[f"goal-coco-{encoder}-mh"].spec
        assert own.loss == Component("max_of_hinges", curriculum)
        losses = set()
        for pair in ("con", "lin", "sig", "lin-ms", "sig-ms"):
            for triplet in ("con", "nca", "cir"):
                spec = models[f"goal-coco-{encoder}-{triplet}-{pair}"].spec
                assert replace(spec, id=own.id, system=own.system, loss=own.loss) == own
                assert spec.loss.options.items() >= curriculum.items() and spec.loss.name == "goal"
                losses.add(str(spec.loss))
        assert len(losses) == 15


def test_a_loss_that_compares_captions_reads_vectors_that_its_corpus_has_once():
    planned = plan(papers=["vsepp", "relative_margins"])
    vector_artefacts = planned.of_kind("vectors")
    # The sentence encoder's vectors belong to runs that are not trained, so nobody needs to have the encoder.
    assert {name.partition("-")[0] for name in vector_artefacts} == {"coco", "flickr"} and len(
        vector_artefacts
    ) == 2
    assert vector_artefacts[
        next(name for name in vector_artefacts if name.startswith("coco"))
    ].spec.splits == (
        "train",
        "restval",
    )
    for run in ("coco-relative-margin", "coco-relative-margin-fifth"):
        vectors = planned.owner(inputs(planned, run)["caption_vectors"])
        assert vectors.kind == "vectors" and vectors.spec.encoder == "tfidf"
        assert vectors.paths["captions"] == inputs(planned, run)["corpus"] / "captions.parquet"
    assert "caption_vectors" not in inputs(planned, "coco-constant-margin")


def with_text(text):
    run = {"text": text, "joint_dim": 1024, "caption_pooling": "mean"}
    return plan(label="x", runs={"coco-vsepp-1c": run})


def test_the_weights_of_a_text_encoder_decide_the_kind_of_its_tokens_and_bring_their_files():
    drawn = with_text({"name": "bert"})
    assert inputs(drawn, "coco-vsepp-1c")["tokens"] == inputs(plan(), "coco-vsepp-1c")["tokens"]
    minilm = {"name": "bert", "weights": "minilm", "layers": 6, "hidden": 384, "intermediate": 1536}
    installed = with_text(minilm)
    tokens = installed.owner(inputs(installed, "coco-vsepp-1c")["tokens"])
    assert tokens.spec.kind == "wordpieces" and set(tokens.inputs) == {"captions"} and not installed.files
    own = with_text({"name": "bert", "weights": "file/base/model.safetensors"})
    pieces, weights = (own.files[f"base/{name}"].path for name in ("vocab.txt", "model.safetensors"))
    tokens = own.owner(inputs(own, "coco-vsepp-1c")["tokens"])
    assert tokens.paths["pieces"] == pieces and inputs(own, "coco-vsepp-1c")["text_weights"] == weights


@pytest.fixture
def mine(tmp_path):
    """The plan of a preset whose flickr is the user's own pictures; the rest is mini's."""
    params = copied(tmp_path)
    source = {"licence": "mine", "citation": "me"}
    files = {"images": "pictures", "captions": "captions.csv"}
    data = {"title": "Mine", "reader": "captions_csv", "files": files}
    entries = {"sources": dict.fromkeys(files.values(), source), "datasets": {"mine": data}}
    edit(params / "datasets.yaml", entries)
    edit(params / "presets/mini.yaml", {"corpora": {"flickr": {"dataset": "mine"}}})
    return make_plan(params)


def test_pictures_of_ones_own_are_turned_as_exif_says_and_those_of_papers_as_the_run_says(mine):
    turned = {name: mine.models[f"{name}-vsepp-rc"].spec for name in ("coco", "flickr")}
    for store in ("train_store", "eval_store"):
        assert getattr(turned["flickr"], store).orientation == "applied"
        assert getattr(turned["coco"], store).orientation == "ignored"
    applied = plan(label="x", runs={"default": {"exif_orientation": "applied"}}).models["coco-vsepp-rc"].spec
    assert applied.eval_store.orientation == "applied"


# Names.


def test_a_name_says_all_that_made_an_artefact():
    """Of two kinds of corners, two plans have one name for one spec only."""
    run = "coco-vsepp-10c-rv"
    squares = plan(label="x", runs={run: {"corners": "square"}})
    assert inputs(squares, run)["features"] != inputs(squares, "coco-vse0-10c-rv")["features"]
    plans = [plan(), squares, plan(fidelity="code"), plan(papers=["vsepp", "goal"]), plan(preset="paper")]
    by_folder = {}
    for artefact in (artefact for planned in plans for artefact in planned.table.values()):
        if "{variant}" not in artefact.step.folder:
            assert by_folder.setdefault(artefact.folder, artefact).digest == artefact.digest, artefact.folder


def test_two_specs_of_one_name_are_refused(tmp_path):
    checkpoint = {"run": "coco-vsepp-rc", "checkpoint": "a.pth.tar", "vocabulary": "a.pkl"}
    edit(copied(tmp_path) / "papers/vsepp/released.yaml", {"flickr-vsepp-1c-published": checkpoint})
    own = tmp_path / "own"
    touch(own, "a.pth.tar", "a.pkl", "f30k_precomp/train_ims.npy")
    with pytest.raises(VseppError, match="flickr-vsepp-1c-published/seed-0"):
        make_plan(tmp_path / "params", {"preset": "paper", "fidelity": "code", "archives": str(own)})
