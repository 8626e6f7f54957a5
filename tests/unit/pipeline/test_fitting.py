"""What a trained run is evaluated on must be of its kind: vocabulary, encoder, crop, store and corpus."""

import shutil

import pytest
import specs

from vsepp.base.errors import VseppError
from vsepp.base.manifest import read_manifest, recorded, write_manifest
from vsepp.base.publish import spec_of
from vsepp.base.spec import FeaturesSpec, StoreSpec, to_dict, to_json
from vsepp.pipeline.fitting import require_fitting

LIVE = specs.change(specs.RUN, trainset="RC", crop__kind="RC", encoder_mode="legacy-master")
PUBLISHED = specs.change(specs.RUN, image_features="precomputed")
FEATURES = FeaturesSpec(specs.RUN.encoder, specs.RUN.eval_crop)


def write(folder, step, spec=None, files=None, **inputs):
    """An artefact with a manifest, as its step would leave it."""
    folder.mkdir(parents=True)
    with recorded(folder, step, spec=to_dict(spec) if spec else {}, inputs=inputs):
        for name, text in (files or {"content": str(folder.name)}).items():
            (folder / name).write_text(text)
    return folder


def trained(folder, run, **encoder):
    files = {"model.safetensors": "weights", "config.json": to_json(run), "vocabulary.json": "words"}
    write(folder, "train", run, files, **encoder)


def data(root, name, encoder):
    """A corpus with all that is made from it."""
    tables = {"images.parquet": f"images of {name}", "captions.parquet": f"captions of {name}"}
    corpus = write(root / name / "corpus", "corpus", files=tables)
    images, captions = corpus / "images.parquet", corpus / "captions.parquet"
    files = {"tokens.npz": "ids", "vocabulary.json": "words"}
    write(root / name / "tokens", "tokens", files=files, captions=captions)
    store = write(root / name / "eval_store", "store", specs.RUN.eval_store, corpus=images)
    write(root / name / "features", "features", FEATURES, store=store, encoder=encoder)
    write(root / name / "published", "precomputed", corpus=images)
    return root / name


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs, the data that they fit to, and folders that are right but for one thing."""
    root = tmp_path_factory.mktemp("made")
    encoder, other = (
        write(root / name, "encoder", files={"w": name}) for name in ("encoder", "other_encoder")
    )
    own = data(root, "own", encoder)
    data(root, "theirs", encoder)
    captions, images = own / "corpus/captions.parquet", own / "corpus/images.parquet"
    words = {"tokens.npz": "ids", "vocabulary.json": "other"}
    write(root / "other_words", "tokens", files=words, captions=captions)
    small = write(root / "small_store", "store", StoreSpec("squash", 20), corpus=images)
    store, change = own / "eval_store", specs.change
    write(root / "other_weights", "features", FEATURES, store=store, encoder=other)
    write(root / "cut", "features", FEATURES, store=small, encoder=encoder)
    for name, spec in (
        ("ten_crops", change(FEATURES, crop__kind="10C")),
        ("darker", change(FEATURES, encoder__mean=(0.4, 0.5, 0.5))),
    ):
        write(root / name, "features", spec, store=store, encoder=encoder)
    whole = read_manifest(write(root / "no_ancestors", "features", FEATURES, store=store, encoder=encoder))
    write_manifest(root / "no_ancestors", {**whole, "ancestors": []})
    trained(root / "run", specs.RUN, encoder=encoder)
    trained(root / "live", LIVE, encoder=encoder)
    trained(root / "of_published", PUBLISHED)
    trained(root / "released", specs.RUN)
    return root


ROLES = {
    "run": ("tokens", "features"),
    "live": ("tokens", "eval_store", "encoder"),
    "of_published": ("tokens", "features"),
    "released": ("tokens", "features"),
}
SPECS = {"live": LIVE, "of_published": PUBLISHED}


def fit(folders, run, **changes):
    """Hold a run against the data that fit it, except the data that `given` replaces."""
    read = {role: folders / "own" / role for role in ("corpus", *ROLES[run])}
    if run == "live":
        read["encoder"] = folders / "encoder"
    if run == "of_published":
        read["features"] = folders / "own" / "published"
    read |= {role: folders / path for role, path in changes.items()}
    require_fitting(SPECS.get(run, specs.RUN), folders / run, read)


@pytest.mark.parametrize("run", ROLES)
def test_what_belongs_to_a_run_is_taken_and_what_may_be_left_out_is_not_missed(folders, run):
    fit(folders, run)
    require_fitting(SPECS.get(run, specs.RUN), folders / run, {"corpus": folders / "theirs" / "corpus"})


MISFITS = [
    ("run", "features", "other_weights", "another encoder than .*run was trained with"),
    ("run", "features", "ten_crops", "another crop .*expected kind '1C', got '10C'"),
    ("run", "features", "darker", r"another encoder .*expected mean \[0.5, 0.5, 0.5\], got \[0.4"),
    ("run", "features", "cut", "another eval_store"),
    ("run", "features", "no_ancestors", r"delete \S+/no_ancestors"),
    ("run", "features", "theirs/features", "another corpus"),
    ("run", "features", "own/published", "expected computed, got precomputed"),
    ("of_published", "features", "theirs/published", "another corpus"),
    ("run", "tokens", "other_words", "another vocabulary"),
    ("run", "tokens", "theirs/tokens", "another captions"),
    ("run", "corpus", "theirs/corpus", "another captions"),
    ("live", "encoder", "other_encoder", "another encoder"),
    ("live", "eval_store", "small_store", "another eval_store .*expected side 28, got 20"),
    ("live", "eval_store", "theirs/eval_store", "another corpus"),
]


@pytest.mark.parametrize(("run", "role", "path", "named"), MISFITS)
def test_what_does_not_belong_to_a_run_is_refused(folders, run, role, path, named):
    with pytest.raises(VseppError, match=named) as error:
        fit(folders, run, **{role: path})
    assert str(error.value).startswith(str(folders / (path if role != "corpus" else "own/tokens")))


def test_a_released_model_knows_its_encoder_by_its_spec_alone(folders):
    fit(folders, "released", features="other_weights")


def test_a_run_is_what_its_spec_says_and_as_training_left_it(folders, tmp_path):
    corpus = {"corpus": folders / "own" / "corpus"}
    assert spec_of(folders / "run") == specs.RUN
    with pytest.raises(VseppError, match=r"no config\.json"):
        spec_of(folders / "encoder")
    other = specs.change(specs.RUN, order_seed=1, precision="bf16")
    with pytest.raises(VseppError, match="order_seed, precision"):
        require_fitting(other, folders / "run", corpus)
    shutil.copytree(folders / "run", tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(to_json(other))
    with pytest.raises(VseppError, match=r"config\.json"):
        require_fitting(specs.RUN, tmp_path / "run", corpus)
