"""Which raw files a plan needs, where it looks for them, and what changes where some are there already."""

import re
from pathlib import Path

import pytest

from vsepp.config import make_plan
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"


def paper(**overrides):
    return make_plan(PARAMS, {"preset": "paper", **overrides})


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return str(folder)


def test_the_paper_needs_seven_files_each_once():
    plan = paper()
    assert set(plan.files) == {
        "train2014.zip",
        "val2014.zip",
        "annotations_trainval2014.zip",
        "caption_datasets.zip",
        "flickr30k-images.zip",
        "vgg19-dcbb9e9d.pth",
        "resnet152-394f9c45.pth",
    }
    assert plan.downloads == plan.files
    assert {str(file.path.parent) for file in plan.files.values()} == {"resources/downloads"}


def test_generated_data_needs_no_files():
    assert make_plan(PARAMS, {}).files == {}


def test_what_is_known_of_a_published_file_is_complete():
    for file in paper().files.values():
        assert file.spec.licence and file.spec.citation
        assert file.spec.mirrors or "archives" in file.spec.instructions
        if file.spec.sha256 and (digits := re.search(r"-([0-9a-f]{8})\.pth$", file.spec.file)):
            assert file.spec.sha256.startswith(digits[1])


def test_a_folder_of_ones_own_is_looked_into_first(tmp_path):
    archives = touch(tmp_path, "train2014.zip", "val2014/x.jpg", "annotations/captions_train2014.json")
    plan = paper(archives=archives)
    assert plan.files["train2014.zip"].path == tmp_path / "train2014.zip"
    assert plan.files["val2014.zip"].path == tmp_path / "val2014"
    assert plan.files["annotations_trainval2014.zip"].path == tmp_path / "annotations"
    assert "train2014.zip" not in plan.downloads
    assert "caption_datasets.zip" in plan.downloads
    corpus = next(spec for spec in plan.corpora.values() if spec.name == "coco2014")
    assert corpus.files["val_images"] == str(tmp_path / "val2014")


def test_moving_files_changes_no_name_of_an_artefact(tmp_path):
    archives = touch(tmp_path, "train2014.zip", "vgg19-dcbb9e9d.pth")
    before, after = paper(), paper(archives=archives)
    for kind in ("corpora", "stores", "encoders", "features", "tapes"):
        assert list(getattr(before, kind)) == list(getattr(after, kind))
    assert after.encoder_files[next(name for name in after.encoders if name.startswith("vgg"))] == (
        tmp_path / "vgg19-dcbb9e9d.pth"
    )


def test_published_features_are_taken_where_they_are_given_and_wanted(tmp_path):
    archives = touch(tmp_path, "f30k_precomp/train_ims.npy")
    run = paper(archives=archives, fidelity="code").runs["flickr-vsepp-1c"]
    assert run.spec.image_features == "precomputed"
    assert run.features == run.eval_features
    assert run.encoder is None and run.train_store is None
    assert run.spec.vocabulary.splits == ("train", "val")
    for other in (paper(archives=archives), paper(fidelity="code")):
        run = other.runs["flickr-vsepp-1c"]
        assert run.spec.image_features == "computed"
        assert run.encoder and run.spec.vocabulary.splits != ("train", "val")
    plan = paper(archives=archives, fidelity="code")
    assert plan.runs["flickr-vsepp-rc"].spec.image_features == "computed"
    assert plan.runs["coco-vsepp-1c"].spec.image_features == "computed"


def test_a_preset_of_published_features_has_the_runs_that_need_no_images(tmp_path):
    archives = touch(tmp_path, "f30k_precomp/train_ims.npy")
    plan = paper(archives=archives, label="features", corpora={"flickr": {"dataset": "f30k_precomp"}})
    flickr = {name for name in plan.runs if name.startswith("flickr")}
    assert flickr == {"flickr-vse0-1c", "flickr-vsepp-1c"}
    assert set(plan.precomputed.values()) == {plan.runs["flickr-vse0-1c"].corpus}


def test_released_checkpoints_are_planned_where_both_files_are_there(tmp_path):
    checkpoint, vocabulary = "runs/f30k_vse++_vggfull/model_best.pth.tar", "vocab/f30k_vocab.pkl"
    assert paper(archives=touch(tmp_path, checkpoint)).released == {}
    plan = paper(archives=touch(tmp_path, vocabulary))
    assert list(plan.released) == ["flickr-released-vsepp-rc"]
    model = plan.released["flickr-released-vsepp-rc"].model
    # Tested as its authors did, whichever fidelity the runs have.
    assert (model.spec.eval_store.resize, plan.runs["flickr-vsepp-rc"].spec.eval_store.resize) == (
        "short_side",
        "squash",
    )
    assert model.spec.live_encoder and model.eval_store and not model.eval_features
    assert plan.tokens[model.tokens].released == "flickr-released-vsepp-rc"
    assert plan.seeds_of("flickr-released-vsepp-rc") == [0]
    only = paper(archives=str(tmp_path), only=["coco-*-1c"])
    assert only.released == {}


def test_first_images_give_artefacts_of_their_own_and_shrink_the_folds():
    first = {"train": 8, "restval": 4, "val": 4, "test": 10}
    sliced = paper(label="slice", corpora={"coco": {"first_images": first}}, evaluation={"fold_size": 2})
    coco = {name: spec for name, spec in sliced.corpora.items() if name.startswith("coco")}
    assert [spec.first_images for spec in coco.values()] == [first]
    assert set(coco).isdisjoint(paper().corpora)
    with pytest.raises(VseppError, match=r"fold_size.*5 such folds need more than the 10 test images"):
        paper(label="slice", corpora={"coco": {"first_images": first}}, evaluation={"fold_size": 3})


@pytest.mark.parametrize(
    "sections, complaint",
    [
        ({"datasets": {"coco2014": {"files": {"splits": "nothing.zip"}}}}, "splits: got 'nothing.zip'"),
        ({"datasets": {"coco2014": {"crops": "1C"}}}, "coco2014.crops: the crops of published features"),
        ({"datasets": {"coco2014": {"precomputed": {"10C": "f30k_precomp"}}}}, "precomputed.10C: got"),
        ({"sources": {"val2014.zip": {"sha256": "abc"}}}, "val2014.zip.sha256: got 'abc'"),
        ({"sources": {"val2014.zip": {"mirrors": ["ftp://x"]}}}, r"mirrors.0: got 'ftp://x'"),
        ({"corpora": {"coco": {"first_images": {"train": 0}}}}, "first_images.train: got 0"),
        ({"encoders": {"vgg": {"weights": "/data/vgg.pth"}}}, "vgg.weights: got '/data/vgg.pth'"),
    ],
)
def test_mistakes_about_sources_are_named(sections, complaint):
    with pytest.raises(VseppError, match=complaint):
        paper(label="x", **sections)
