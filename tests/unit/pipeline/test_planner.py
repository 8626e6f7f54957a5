"""The table of artefacts: what is made from what, shared where parameters are equal and apart where they differ."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from plans import PARAMS, copied, edit, plan

from vsepp.base.errors import PHASES, VseppError
from vsepp.base.run_spec import SizeAugmentationSpec
from vsepp.base.spec import Component, to_dict
from vsepp.losses import first_epoch_after
from vsepp.pipeline.planner import make_plan
from vsepp.shipped import encoder_weights


def inputs(plan, run, kind="run", seed=0):
    return plan.table[kind, f"{run}/seed-{seed}"].paths


def made_by(plan):
    """Kind and name of every artefact → all that decides whether it is made again."""
    return {key: (a.folder, a.digest) for key, a in plan.table.items()}


def changed(before, after):
    """Kinds of what two plans make differently, or only one of them makes; the report tells of all."""
    one, other = made_by(before), made_by(after)
    return {key[0] for key in one.keys() | other.keys() if one.get(key) != other.get(key)} - {"report"}


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
    place = {artefact.folder: number for number, artefact in enumerate(any_plan.table.values())}
    fetched = {file.path for file in any_plan.files.values()}
    drawn = [artefact.folder for artefact in any_plan.of_kind("scenes").values()]
    for artefact in any_plan.table.values():
        for role, (path, raw) in artefact.inputs.items():
            if raw:
                shipped = path.is_relative_to(os.path.relpath(encoder_weights("mini").parent))
                assert shipped or path in fetched or any(path.is_relative_to(folder) for folder in drawn)
            elif role not in ("published", "expected", "expected/ranks"):  # files of the project
                assert place[any_plan.owner(path).folder] < place[artefact.folder], (artefact.name, role)


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
    found = plan(**overrides)
    assert set(inputs(found, run)) == read
    assert set(inputs(found, run, "evaluation")) == {"run"}
    for role, path in inputs(found, run).items():
        of = "run" if role == "init_from" else role.removeprefix("eval_").removeprefix("train_")
        assert found.owner(path).kind == of


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
    assert {name for _, name in seeds.table} >= {"coco-vse0-1c/seed-0", "coco-vse0-1c/seed-3"}
    for model in seeds.models.values():
        first, second = (to_dict(model.specs[seed]) for seed in (0, 3))
        assert {key for key in first if first[key] != second[key]} == {"init_seed", "order_seed"}
        assert (second["init_seed"], second["order_seed"]) == (3, 3)
    tuned = inputs(seeds, "coco-vse0-rc-rv-ft", seed=3)
    assert tuned["init_from"] == seeds.table["run", "coco-vse0-rc-rv/seed-3"].folder
    artefact = seeds.table["run", "coco-vse0-1c/seed-3"]
    assert artefact.spec == seeds.models["coco-vse0-1c"].specs[3]
    assert artefact.step.seed(artefact.spec) == 3


def test_crops_splits_and_words_are_those_of_the_run():
    paper, code = plan(preset="paper"), plan(preset="paper", fidelity="code")
    features = paper.owner(inputs(paper, "coco-order0-10c-rv")["features"])
    assert features.spec.crop.kind == "10C"
    for run, splits in (("coco-vse0-rc", ("train",)), ("coco-vse0-rc-rv", ("train", "restval"))):
        assert paper.models[run].spec.vocabulary.splits == splits
        assert code.models[run].spec.vocabulary.splits == ("train", "restval", "val", "test")


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


def test_weights_that_come_with_the_package_are_found_by_the_name_of_the_network():
    read = [made.inputs["weights"] for made in plan(papers=["goal"]).of_kind("encoder").values()]
    files = ["resnet_mini.safetensors", "vit_mini.safetensors"]
    assert sorted({weights.raw for weights in read}) == files and all(
        weights.path.is_file() for weights in read
    )


def test_how_one_encoder_is_run_changes_nothing_of_another():
    before, after = plan(label="x"), plan(label="x", encoders={"vgg": {"precision": "bf16"}})
    for name, artefact in after.of_kind("run").items():
        vgg = artefact.spec.encoder.name == "vgg"
        assert (to_dict(artefact.spec) != to_dict(before.table["run", name].spec)) is vgg


def test_choosing_runs_changes_no_artefact():
    whole, some = made_by(plan()), made_by(plan(only="coco-vsepp-rc"))
    assert {name for kind, name in some if kind == "run"} == {"coco-vsepp-rc/seed-0"}
    assert all(whole[key] == made for key, made in some.items() if key[0] != "report")
    assert {key for key in whole if key not in some} == {
        key for key in whole if key[0] in ("run", "evaluation") and "coco-vsepp-rc/" not in key[1]
    }


def test_the_paper_has_26_runs_six_more_negative_set_sizes_and_a_curriculum():
    models = plan(preset="paper").models
    sizes = {name: model.spec.schedule.negative_set for name, model in models.items()}
    assert sorted(size for size in sizes.values() if size) == [2, 8, 32, 64, 256, 512]
    assert len([name for name, size in sizes.items() if size is None]) == 26 + 1
    assert models["flickr-vsepp-rc-curriculum"].spec.loss.options == {"curriculum": 0.167}


def test_paper_runs_have_the_papers_hyperparameters():
    models = plan(preset="paper").models
    spec = models["coco-vsepp-rc-rv"].spec
    schedule = spec.schedule
    assert (schedule.batch_size, schedule.epochs, schedule.learning_rate) == (128, 30, 0.0002)
    assert (schedule.drop_at, schedule.drop_factor) == (0.5, 0.1)
    assert (spec.loss, spec.model.text) == (Component("max_of_hinges"), Component("gru"))  # .2; 300 and 1024
    assert (spec.model.joint_dim, spec.model.similarity) == (1024, Component("dot"))
    order0 = models["coco-order0-10c-rv"].spec
    assert order0.loss == Component("sum_of_hinges", {"margin": 0.05})
    assert (order0.schedule.learning_rate, order0.model.absolute) == (0.001, True)
    assert order0.model.similarity == Component("order")
    tuned = models["flickr-vse0-rc-resnet-ft"].spec
    assert (tuned.finetune_from, tuned.schedule.epochs) == ("flickr-vse0-rc-resnet", 15)
    assert tuned.schedule.learning_rate == 0.00002
    assert not tuned.model.normalise_images
    assert {model.spec.encoder.precision for model in models.values()} == {"fp32"}


# --- Raw files -------------------------------------------------------------------------------------------------


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def paper_with(archives, **overrides):
    return make_plan(PARAMS, {"preset": "paper", "archives": str(archives), **overrides})


def test_the_paper_needs_seven_files_each_once_and_all_that_is_known_of_them_is_said():
    assert plan().files == {}, "generated data needs none"
    paper = plan(preset="paper")
    photos = {"train2014.zip", "val2014.zip", "flickr30k-images.zip"}
    texts = {"annotations_trainval2014.zip", "caption_datasets.zip"}
    assert set(paper.files) == {*photos, *texts, "vgg19-dcbb9e9d.pth", "resnet152-394f9c45.pth"}
    assert paper.downloads == paper.files
    for name, file in paper.files.items():
        assert file.path == Path("resources/downloads", name)
        assert file.spec.licence and file.spec.citation
        assert file.spec.mirrors or "archives" in file.spec.instructions
        if file.spec.sha256 and (digits := re.search(r"-([0-9a-f]{8})\.pth$", name)):
            assert file.spec.sha256.startswith(digits[1])


def test_a_folder_of_ones_own_is_looked_into_first_and_changes_places_alone(tmp_path, monkeypatch):
    touch(
        tmp_path,
        "train2014.zip",
        "val2014/x.jpg",
        "annotations/captions_train2014.json",
        "vgg19-dcbb9e9d.pth",
    )
    before, after = plan(preset="paper"), paper_with(tmp_path)
    own = {name: file.path.name for name, file in after.files.items() if file.path.parent == tmp_path}
    assert own == {
        "train2014.zip": "train2014.zip",
        "val2014.zip": "val2014",
        "annotations_trainval2014.zip": "annotations",
        "vgg19-dcbb9e9d.pth": "vgg19-dcbb9e9d.pth",
    }
    assert set(after.downloads) == set(after.files) - set(own)
    assert made_by(before) == made_by(after)
    raw = [made.paths for made in after.of_kind("corpus").values() if made.spec.name == "coco2014"]
    assert raw[0]["val_images"] == tmp_path / "val2014"
    assert raw[0]["splits"] == Path("resources/downloads/caption_datasets.zip")
    vgg = [made.paths for name, made in after.of_kind("encoder").items() if name.startswith("vgg")]
    assert vgg == [{"weights": tmp_path / "vgg19-dcbb9e9d.pth"}]
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert paper_with(f"~/{tmp_path.name}").files == after.files


def test_images_that_are_left_out_make_another_corpus_and_are_told():
    before, after = (
        plan(preset="flickr8k"),
        plan(preset="flickr8k", label="fewer", corpora={"flickr": {"leave_out": ["a", "b"]}}),
    )
    assert [made.spec.leave_out for made in after.of_kind("corpus").values()] == [("a", "b")]
    assert not set(before.of_kind("corpus")) & set(after.of_kind("corpus"))
    assert "Images left out: 2 of Flickr8k." in after.table["report", "vsepp"].spec.context.summary


def test_a_run_may_have_seeds_of_its_own_or_none():
    runs = {"coco-vse0-1c": {"seeds": [3, 1]}, "coco-vsepp-1c": {"seeds": []}}
    found = plan(label="seeds", seeds=[0, 1], runs=runs)
    assert list(found.models["coco-vse0-1c"].specs) == [3, 1]
    assert list(found.models["coco-vsepp-rc"].specs) == [0, 1]
    assert "coco-vsepp-1c" not in found.models, "it is not trained, and its row says so"
    assert found.seeds == [0, 1, 3]
    with pytest.raises(
        VseppError,
        match=r"runs\.coco-vsepp-rc-rv-ft\.seeds: coco-vsepp-rc-rv, which it starts from, has no seed 0",
    ):
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


def test_a_preset_of_published_features_has_the_runs_that_need_no_images(tmp_path):
    touch(tmp_path, "f30k_precomp/train_ims.npy")
    found = paper_with(tmp_path, label="features", corpora={"flickr": {"dataset": "f30k_precomp"}})
    flickr = {name for name in found.models if name.startswith("flickr")}
    assert flickr == {"flickr-vse0-1c", "flickr-vsepp-1c"}
    (published,) = found.of_kind("published").values()
    assert {inputs(found, f"{run}-published")["features"] for run in flickr} == {published.folder}


REGIONS = {"flickr-vsepp-1c": {"trainset": "regions", "image_pooling": "mean"}}


@pytest.mark.parametrize("how", ["if given", "as the data set"])
def test_published_regions_are_those_of_a_run_on_regions(tmp_path, how):
    touch(tmp_path, "f30k_butd/train_ims.npy", "f30k_precomp/train_ims.npy")
    if how == "if given":
        found = paper_with(tmp_path, label="regions", fidelity="code", runs=REGIONS)
    else:
        corpora = {"flickr": {"dataset": "f30k_regions"}}
        found = paper_with(tmp_path, label="regions", corpora=corpora, runs=REGIONS)
        assert {name for name in found.models if name.startswith("flickr")} == set(REGIONS)
    spec, features = (
        found.models["flickr-vsepp-1c"].spec,
        inputs(found, "flickr-vsepp-1c-published")["features"],
    )
    published = found.owner(features)
    assert (spec.image_features, spec.trainset, published.kind) == ("precomputed", "regions", "published")
    assert published.spec.name == "f30k_regions" and not spec.model.normalise_features
    # Without the folder they are windows of the photographs.
    spec = plan(preset="paper", label="regions", fidelity="code", runs=REGIONS).models["flickr-vsepp-1c"].spec
    assert spec.image_features == "computed"


def test_released_checkpoints_are_planned_where_both_files_are_there(tmp_path):
    touch(tmp_path, "runs/f30k_vse++_vggfull/model_best.pth.tar")
    assert paper_with(tmp_path).of_kind("released") == {}
    touch(tmp_path, "vocab/f30k_vocab.pkl")
    found, name = paper_with(tmp_path, seeds=[4, 5]), "flickr-released-vsepp-rc"
    model, run = found.models[name], found.models["flickr-vsepp-rc"]
    assert (model.released, list(model.specs), model.protocols) == ("flickr-vsepp-rc", [4], run.protocols)
    assert list(found.of_kind("released")) == [f"{name}/seed-4"]
    # Tested as its authors did, whichever fidelity the runs have.
    assert [m.spec.eval_store.resize for m in (model, run)] == ["short_side", "squash"]
    made, read = found.table["released", f"{name}/seed-4"], inputs(found, name, "evaluation", 4)
    assert (made.paths["checkpoint"].name, made.paths["vocabulary"].name) == (
        "model_best.pth.tar",
        "f30k_vocab.pkl",
    )
    assert set(made.paths) == LIVE | {"checkpoint", "vocabulary"} and read == {"run": made.folder}
    tokens = found.owner(made.paths["tokens"])
    assert (tokens.kind, tokens.paths["vocabulary"]) == ("tokens", made.paths["vocabulary"])
    assert "-words-vocab-f30k_vocab.pkl-" in tokens.name
    assert paper_with(tmp_path, only=["coco-*-1c"]).of_kind("released") == {}


def test_figures_of_losses_are_computed_for_the_papers_whose_reports_show_them():
    shown = plan().of_kind("figure_data")
    assert list(shown) == ["vsepp/figure1"]
    (made,) = shown.values()
    assert [loss.name for loss in made.spec.figure.losses] == ["sum_of_hinges", "max_of_hinges"]
    report = plan().table["report", "vsepp"]
    assert report.paths["figure/figure1"] == made.folder
    assert plan(label="x", tables={"vsepp": ["table1"]}).of_kind("figure_data") == {}


def test_weights_are_computed_for_figures_of_goal():
    shown = plan(papers=["goal"]).of_kind("figure_data")
    assert list(shown) == ["goal/figure2", "goal/figure3"]
    assert [made.spec.figure.of for made in shown.values()] == ["triplet", "pair"]
    assert shown["goal/figure2"].spec.figure.losses[-1].options == {"triplet": "circle", "offset": 0.5}
    assert shown["goal/figure3"].spec.figure.others == 0.1
    assert "vsepp.losses.goal" not in str(plan().of_kind("figure_data"))


def test_goal_trains_coco_alone_on_generated_scenes_and_everything_three_times_for_the_paper():
    mini = plan(papers=["goal"]).models
    assert len(mini) == 97 and all(model.spec.dataset == "coco" for model in mini.values())
    assert {tuple(model.specs) for model in mini.values()} == {(0,)}
    paper = plan(papers=["goal"], preset="paper").models
    assert len(paper) == 162 and {tuple(model.specs) for model in paper.values()} == {(0, 1, 2)}
    frozen, tuned = paper["goal-coco-vit-nca-sig"].spec, paper["goal-coco-vit-nca-sig-ft"].spec
    assert (frozen.schedule.epochs, frozen.schedule.learning_rate, frozen.schedule.drop_at) == (30, 2e-4, 0.5)
    assert (tuned.schedule.epochs, tuned.schedule.learning_rate, tuned.schedule.drop_at) == (15, 2e-5, 1.0)
    assert tuned.live_encoder and tuned.encoder.architecture == "torchvision/vit_b_16"


@pytest.mark.parametrize("fidelity", ["paper", "code"])
def test_goal_takes_the_place_of_x_vlms_loss_and_the_matching_loss_becomes_a_mean(fidelity):
    mini = plan(papers=["goal"], fidelity=fidelity).models
    itc, goal = (mini[f"goal-coco-xvlm{name}"].spec for name in ("", "-cir-sig-ms"))
    trained = {"share_same_image": True, "learned": "temperature"}
    assert itc.loss == Component("info_nce", trained) and goal.loss.name == "goal"
    assert goal.loss.options["offset"] == 0.5 and itc.schedule.clip_norm is None
    assert (itc.vocabulary.splits, itc.image_features) == (("train", "restval"), "computed")
    assert (itc.vocabulary.clean_captions, itc.vocabulary.first_words, itc.vocabulary.end_token) == (
        True,
        30,
        False,
    )
    assert (itc.model.image_bias, itc.model.caption_bias, itc.model.text.options["linear"]) == (
        True,
        True,
        False,
    )
    assert itc.model.matcher and goal.model.matcher
    options, others = itc.model.matcher.options, goal.model.matcher.options
    assert options["k"] == 32 and options["temperature"] is None
    assert (options["drawn_from"], options["before_maps"]) == (20, True)
    assert 2 * goal.schedule.batch_size * others["weight"] == 1 and "temperature" not in others  # .07
    same = {"id": goal.id, "system": goal.system, "loss": goal.loss}
    assert replace(itc, **same, model=replace(itc.model, matcher=goal.model.matcher)) == goal


@pytest.mark.parametrize("fidelity", ["paper", "code"])
def test_vse_infinity_trains_its_rows(fidelity):
    mini, paper = (
        plan(papers=["vse_infinity"], preset=preset, fidelity=fidelity).models for preset in ("mini", "paper")
    )
    assert mini.keys() == paper.keys() and len(paper) == 39
    regions, start, grid = (paper[f"inf-coco-{name}"].spec for name in ("regions", "grid-start", "grid"))
    assert (regions.trainset, regions.model.image_head, regions.live_encoder) == (
        "regions",
        Component("regions"),
        False,
    )
    assert (
        regions.loss.options == {"curriculum": 0.04} and first_epoch_after(0.04, regions.schedule.epochs) == 1
    )
    assert (start.reads, start.loss.options, start.schedule.epochs) == ("inline", {"curriculum": 1.0}, 1)
    assert grid.reads == "live" and grid.grid and grid.encoder_mode == "eval" and grid.loss.options == {}
    assert start.schedule.epochs + grid.schedule.epochs == regions.schedule.epochs == 25
    drops = [first_epoch_after(spec.schedule.drop_at, spec.schedule.epochs) for spec in (regions, grid)]
    assert drops == [15, 15 - start.schedule.epochs]
    assert grid.optimiser.options == {"rates": [["encoder.", 0.01]]}
    means = paper["inf-flickr-resnet-means"].spec
    assert {name for kind, name in means.components if kind == "pooling"} == {"mean"}
    assert means.size_augmentation == SizeAugmentationSpec(
        drop_vectors_by=grid.size_augmentation.drop_vectors_by,
        drop_words_by=grid.size_augmentation.drop_words_by,
    )
    assert paper["inf-coco-both-bert"].ensemble == ("inf-coco-regions-bert", "inf-coco-grid-bert")
    wsl, first = (paper[f"inf-coco-wsl-{name}"].spec for name in ("bert", "bert-means"))
    assert wsl.optimiser.options == {"rates": [["text.bert.", 0.1], ["encoder.", 0.01]]}
    assert (first.model.image_pooling.name, first.model.caption_pooling.name) == ("mean", "first")
    assert mini["inf-coco-wsl-bert"].spec.model.text.options["layers"] == 2


def test_on_paper_bert_and_wsl_are_files_of_the_users():
    made = plan(papers=["goal", "vse_infinity"], preset="paper")
    files = {
        "bert-base-uncased/pytorch_model.bin",
        "bert-base-uncased/vocab.txt",
        "ig_resnext101_32x8-c38310e5.pth",
    }
    assert files <= made.files.keys() and files <= made.parameters.sources.keys()
    bert = {run for run, model in made.models.items() if model.spec.model.text.name == "bert"}
    assert {"goal-flickr-wsl-cir-sig-ms", "inf-flickr-grid-bert", "inf-coco-both-bert"} <= bert and len(
        bert
    ) == 59
    for run in bert:
        spec = made.models[run].spec
        assert spec.vocabulary.kind == "wordpieces" and spec.model.text.options == {
            "weights": f"file/{min(files)}"
        }
    wsl = made.models["goal-coco-wsl-con-con"].spec.encoder
    assert (wsl.architecture, wsl.input_size) == ("torchvision/resnext101_32x8d", 512)


def test_rows_of_goal_on_vse_infinity_differ_by_the_loss_alone():
    made = plan(papers=["goal"], preset="paper").models
    for encoder, curriculum in (("butd", {"curriculum": 0.04}), ("wsl", {})):
        own = made[f"goal-coco-{encoder}-mh"].spec
        assert own.loss == Component("max_of_hinges", curriculum)
        losses = set()
        for pair in ("con", "lin", "sig", "lin-ms", "sig-ms"):
            for triplet in ("con", "nca", "cir"):
                spec = made[f"goal-coco-{encoder}-{triplet}-{pair}"].spec
                assert replace(spec, id=own.id, system=own.system, loss=own.loss) == own
                assert spec.loss.options.items() >= curriculum.items() and spec.loss.name == "goal"
                losses.add(str(spec.loss))
        assert len(losses) == 15


def test_on_generated_scenes_goals_rows_on_wsl_have_a_frozen_cnn_but_for_one():
    mini = plan(papers=["goal"]).models
    rows = {run: model.spec for run, model in mini.items() if run.startswith("goal-coco-wsl-")}
    assert [run for run, spec in rows.items() if spec.live_encoder] == ["goal-coco-wsl-nca-con"]
    assert {spec.reads for spec in rows.values()} == {"features", "inline", "live"} and len(rows) == 17


def test_a_combination_of_goal_on_vse_infinity_begins_with_all_negatives(params):
    combination = {
        "base": ["goal-butd", "goal-cir-sig-ms", "goal-infinity", "goal-coco"],
        "trainset": "regions+rV",
    }
    edit(params / "papers/goal/runs.yaml", {"mine": {**combination, "protocols": ["5K"]}})
    spec = make_plan(params, {"papers": ["goal"], "preset": "paper"}).models["mine"].spec
    assert spec.loss == Component("goal", {"triplet": "circle", "pair": "sigmoid_ms", "curriculum": 0.04})
    own = plan(papers=["vse_infinity"], preset="paper").models["inf-coco-regions"].spec
    assert spec.schedule == own.schedule and spec.size_augmentation == own.size_augmentation
    assert spec.model.text.name == "bert" and spec.optimiser.options == {"rates": [["text.bert.", 0.1]]}
    hardest = {
        "papers": ["goal"],
        "preset": "paper",
        "label": "hardest",
        "runs": {"goal-infinity": {"loss": {"curriculum": 0}}},
    }
    assert "curriculum" not in make_plan(params, hardest).models["mine"].spec.loss.options


def test_pictures_of_a_figure_are_shown_where_the_data_allow_it():
    def photographs(preset):
        return set(plan(preset=preset).table["report", "vsepp"].spec.photographs)

    assert "coco" in photographs("mini") and not photographs("paper")


def test_a_loss_that_compares_captions_reads_vectors_that_its_corpus_has_once():
    made = plan(papers=["vsepp", "relative_margins"])
    found = made.of_kind("vectors")
    # The sentence encoder's vectors belong to runs that are not trained, so nobody needs to have the encoder.
    assert {name.partition("-")[0] for name in found} == {"coco", "flickr"} and len(found) == 2
    assert found[next(name for name in found if name.startswith("coco"))].spec.splits == ("train", "restval")
    for run in ("coco-relative-margin", "coco-relative-margin-fifth"):
        vectors = made.owner(inputs(made, run)["caption_vectors"])
        assert vectors.kind == "vectors" and vectors.spec.encoder == "tfidf"
        assert vectors.paths["captions"] == inputs(made, run)["corpus"] / "captions.parquet"
    assert "caption_vectors" not in inputs(made, "coco-constant-margin")
    # Runs of VSE++ are made as without it.
    both = made_by(made)
    alone = {key: value for key, value in made_by(plan()).items() if key[0] != "report"}
    assert {key: both[key] for key in alone} == alone
    seeds = {"coco-relative-margin-sentences": {"seeds": [0]}}
    trained = plan(papers=["relative_margins"], label="x", runs=seeds)
    assert {vectors.spec.encoder for vectors in trained.of_kind("vectors").values()} == {"tfidf", "minilm"}


MINILM = {"name": "bert", "weights": "minilm", "layers": 6, "hidden": 384, "intermediate": 1536}


def with_text(text):
    return plan(
        label="x", runs={"coco-vsepp-1c": {"text": text, "joint_dim": 1024, "caption_pooling": "mean"}}
    )


def test_the_weights_of_a_text_encoder_decide_the_kind_of_its_tokens_and_bring_their_files():
    drawn = with_text({"name": "bert"})
    assert inputs(drawn, "coco-vsepp-1c")["tokens"] == inputs(plan(), "coco-vsepp-1c")["tokens"]
    minilm = with_text(MINILM)
    tokens = minilm.owner(inputs(minilm, "coco-vsepp-1c")["tokens"])
    assert "-wordpieces-minilm-" in tokens.name and set(tokens.inputs) == {"captions"} and not minilm.files
    assert to_dict(tokens.spec) == {"splits": [], "threshold": 1, "kind": "wordpieces"}
    own = with_text({"name": "bert", "weights": "file/base/model.safetensors"})
    tokens = own.owner(inputs(own, "coco-vsepp-1c")["tokens"])
    assert "-wordpieces-base-vocab.txt-" in tokens.name
    assert tokens.inputs["pieces"] == (own.files["base/vocab.txt"].path, "base/vocab.txt")
    trained = own.table["run", "coco-vsepp-1c/seed-0"]
    assert trained.inputs["text_weights"] == (
        own.files["base/model.safetensors"].path,
        "base/model.safetensors",
    )
    assert set(own.files) == {"base/vocab.txt", "base/model.safetensors"}


def test_a_vocabulary_has_a_hidden_word_where_words_are_masked():
    dropped = {"drop_words": 0.2}
    masked = plan(label="x", runs={"coco-vsepp-1c": {**dropped, "drop_words_by": "mask"}})
    plain = plan(label="x", runs={"coco-vsepp-1c": dropped})
    usual = inputs(plan(), "coco-vsepp-1c")["tokens"]
    assert inputs(plain, "coco-vsepp-1c")["tokens"] == usual
    assert inputs(masked, "coco-vsepp-1c")["tokens"].name.startswith("coco-train-min4-mask-")
    assert masked.models["coco-vsepp-1c"].spec.vocabulary.mask


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
    for of in ("train_store", "eval_store"):
        assert getattr(turned["flickr"], of).orientation == "applied"
        assert getattr(turned["coco"], of).orientation == "ignored"


def test_the_corpus_knows_how_many_test_images_the_folds_need(mine):
    corpora = {made.spec.name: mine.test_images(made) for made in mine.of_kind("corpus").values()}
    assert corpora == {"scenes_coco": 5 * 200, "mine": 200}


# --- Names -----------------------------------------------------------------------------------------------------


def test_a_name_says_all_that_made_an_artefact():
    """Of two kinds of corners, two plans have one name for one spec only."""
    squares = plan(label="x", runs={"coco-vsepp-10c-rv": {"corners": "square"}})
    (there,) = {inputs(squares, run)["features"] for run in ("coco-vsepp-10c-rv",)}
    assert there != inputs(squares, "coco-vse0-10c-rv")["features"]
    plans = [plan(), squares, plan(fidelity="code"), plan(papers=["vsepp", "goal"]), plan(preset="paper")]
    by_folder = {}
    for made in (
        made for some in plans for made in some.table.values() if "{variant}" not in made.step.folder
    ):
        assert by_folder.setdefault(made.folder, made).digest == made.digest, made.folder


def test_published_features_in_place_of_computed_ones_make_runs_in_folders_of_their_own(tmp_path):
    touch(tmp_path, "f30k_precomp/train_ims.npy")
    computed, published = plan(preset="paper", fidelity="code"), paper_with(tmp_path, fidelity="code")
    for kind in ("run", "evaluation"):
        for name, made in published.of_kind(kind).items():
            other = computed.of_kind(kind).get(name)
            assert other is None or other.spec == made.spec, name
    assert "flickr-vsepp-1c-published/seed-0" in published.of_kind("run")


def test_pictures_do_not_depend_on_the_order_of_papers():
    one, other = (
        plan(papers=papers).of_kind("pictures") for papers in (["vsepp", "goal"], ["goal", "vsepp"])
    )
    assert {name: made.paths for name, made in one.items()} == {
        name: made.paths for name, made in other.items()
    }


def test_two_specs_of_one_name_are_refused(tmp_path):
    checkpoint = {"run": "coco-vsepp-rc", "checkpoint": "a.pth.tar", "vocabulary": "a.pkl"}
    edit(copied(tmp_path) / "papers/vsepp/released.yaml", {"flickr-vsepp-1c-published": checkpoint})
    touch(tmp_path / "own", "a.pth.tar", "a.pkl", "f30k_precomp/train_ims.npy")
    with pytest.raises(
        VseppError, match=r"runs/flickr-vsepp-1c-published/seed-0: would be run .* and released"
    ):
        make_plan(
            tmp_path / "params", {"preset": "paper", "fidelity": "code", "archives": str(tmp_path / "own")}
        )


def test_what_a_folder_of_raw_files_lacks_is_said_with_its_name_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kaggle" / "Images").mkdir(parents=True)
    archives = str(tmp_path / "kaggle")
    (said,) = make_plan(PARAMS, {"preset": "flickr8k", "archives": archives}).absent()
    assert all(
        name in said for name in (archives, "Flickr8k_Dataset.zip", "Images", "captions.txt", "1.12 GB")
    )
    (tmp_path / "kaggle" / "Flickr8k_Dataset").mkdir()
    (said,) = make_plan(PARAMS, {"preset": "flickr8k", "archives": archives}).absent()
    assert "Flickr8k_Dataset" not in said and "Flickr8k_text.zip" in said
