"""What several jobs make of one artefact, in shards."""

import numpy as np
import pytest
from raw_layouts import PRECOMP_SIZES, precomp_features, write_precomp

from vsepp.data.corpora import read_corpus
from vsepp.data.shard_files import open_array
from vsepp.data.tables import write_tables
from vsepp.data.tokens import Tokens
from vsepp.data.wordpieces import SPECIAL_PIECES
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import SHARDS, Job, part_role
from vsepp.spec import PartSpec, VocabularySpec, to_dict
from vsepp.steps import STEPS
from vsepp.steps.making import make

ITEMS, PARTS = 3, 2
EXPECTED = np.concatenate([precomp_features(prefix) for prefix in PRECOMP_SIZES])
COUNT = len(EXPECTED)


@pytest.fixture
def read(tmp_path):
    """A corpus's spec, what a part reads of it, and its raw files."""
    spec = write_precomp(tmp_path / "raw", repeated=("train",))
    write_tables(tmp_path / "corpus", *read_corpus(spec))
    return spec, {"images": tmp_path / "corpus/images.parquet"}, {"folder": tmp_path / "raw/f30k_precomp"}


@pytest.fixture
def listed(tmp_path, read):
    """Features in shards, made by two jobs."""
    spec, inputs, raw = read
    whole, parts = tmp_path / "features", {}
    for part in range(PARTS):
        parts[part_role(part)] = whole / f"part-{part:03}"
        made = PartSpec(to_dict(spec), ITEMS, part, PARTS)
        make(STEPS["published_part"], made, inputs, parts[part_role(part)], raw=raw)
    make(STEPS["published"], spec, inputs | parts, whole, raw=raw)
    return whole


def shard(listed, number):
    (path,) = listed.glob(f"part-*/{number:05}.features.npy")
    return path


def test_shards_have_the_rows_of_one_file(listed):
    np.testing.assert_array_equal(open_array(listed, "features.npy")[:][:, 0], EXPECTED)
    lengths = [len(np.load(path)) for path in sorted(listed.rglob("*.npy"))]
    assert lengths == [ITEMS] * (COUNT // ITEMS) + [COUNT % ITEMS] * (COUNT % ITEMS > 0)


def test_after_a_kill_only_unfinished_shards_are_made(tmp_path, read):
    spec, inputs, raw = read
    part = PartSpec(to_dict(spec), ITEMS, 0, 1)
    job = Job(tmp_path / "part", tmp_path / "state", raw)
    for number, beginning in (("00000", ""), ("00002", ".unfinished")):
        folder = tmp_path / "state" / f"{number}{beginning}"
        folder.mkdir(parents=True)
        np.save(folder / "features.npy", np.full((ITEMS, 1, 6), 7, np.float32))
    (tmp_path / "part").mkdir()
    STEPS["published_part"].run(part, inputs, tmp_path / "part", job)
    made = np.concatenate([np.load(path)[:, 0] for path in sorted((tmp_path / "part").iterdir())])
    assert (made[:ITEMS] == 7).all()  # what was finished stands as it was
    np.testing.assert_array_equal(made[ITEMS:], EXPECTED[ITEMS:])


def test_more_jobs_than_shards_leave_some_without_work(tmp_path, read):
    spec, inputs, raw = read
    jobs = COUNT + 2
    folders = [tmp_path / f"features/part-{part:03}" for part in range(jobs)]
    for part, folder in enumerate(folders):
        make(STEPS["published_part"], PartSpec(to_dict(spec), COUNT, part, jobs), inputs, folder, raw=raw)
    roles = {part_role(part): folder for part, folder in enumerate(folders)}
    make(STEPS["published"], spec, inputs | roles, tmp_path / "features", raw=raw)
    np.testing.assert_array_equal(open_array(tmp_path / "features", "features.npy")[:][:, 0], EXPECTED)


def _shorter(path):
    path.write_bytes(path.read_bytes()[:-5])


def _fewer_rows(path):
    np.save(path, np.load(path)[:-1])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda path: path.unlink(),
            "00001.features.npy: missing, a shard of .*delete .*part-000 and run the same command",
        ),
        (_shorter, "00001.features.npy: no whole shard .*delete .*part-000 and run the same command"),
        (_fewer_rows, "00001.features.npy: has 2 rows, .*shards.json expects 3; make it again"),
    ],
)
def test_a_damaged_shard_is_named_with_what_to_do(listed, damage, said):
    damage(shard(listed, 1))
    with pytest.raises(VseppError, match=said):
        open_array(listed, "features.npy")


def test_a_part_that_was_made_anew_differently_does_not_fit_the_list(listed, read, tmp_path):
    spec, inputs, raw = read
    np.save(raw["folder"] / "train_ims.npy", np.ones((5 * PRECOMP_SIZES["train"], 6), np.float32))
    made = PartSpec(to_dict(spec), ITEMS, 0, PARTS)
    make(STEPS["published_part"], made, inputs, listed / "part-000", raw=raw)
    with pytest.raises(
        VseppError, match=r"00000.features.npy: has the digest \w{12}, .*shards.json expects \w{12}"
    ):
        open_array(listed, "features.npy")


def test_a_list_of_another_version_is_refused(listed):
    path = listed / SHARDS
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(VseppError, match=r"shards\.json: has version 2, expected 1"):
        open_array(listed, "features.npy")


def test_a_part_that_is_not_there_is_named(listed, read):
    spec, inputs, raw = read
    with pytest.raises(VseppError, match=r"part-001.*expected shard 00000 next"):
        make(STEPS["published"], spec, inputs | {part_role(0): listed / "part-001"}, listed, raw=raw)


WORDS, PIECES = VocabularySpec(("train",), 1), VocabularySpec((), 1, kind="wordpieces", file="pieces")


@pytest.mark.parametrize("spec", [WORDS, PIECES], ids=lambda spec: spec.kind)
def test_word_ids_in_shards_are_those_of_one_file(tmp_path, read, spec):
    captions, raw = {"captions": tmp_path / "corpus/captions.parquet"}, {}
    if spec is PIECES:
        raw["pieces"] = tmp_path / "vocab.txt"
        raw["pieces"].write_text("\n".join((*SPECIAL_PIECES, *"abcdefghijklmnopqrstuvwxyz")) + "\n")
    one, cut, parts = tmp_path / "one", tmp_path / "cut", {}
    make(STEPS["tokens"], spec, captions, one, raw=raw)
    if spec is WORDS:
        make(STEPS["vocabulary"], spec, captions, tmp_path / "vocabulary")
        captions["vocabulary"] = tmp_path / "vocabulary/vocabulary.json"
    for part in range(PARTS):
        folder = parts[part_role(part)] = cut / f"part-{part:03}"
        make(STEPS["tokens_part"], PartSpec(to_dict(spec), ITEMS, part, PARTS), captions, folder, raw=raw)
    make(STEPS["tokens"], spec, captions | parts, cut, raw=raw)
    assert (cut / "vocabulary.json").read_bytes() == (one / "vocabulary.json").read_bytes()
    tokens, whole = Tokens.load(cut), Tokens.load(one)
    assert (len(tokens), tokens.kind) == (len(whole), spec.kind)
    assert len(list(cut.rglob("*.ids.npy"))) == -(-len(whole) // ITEMS) > 1
    rows = np.random.default_rng(0).permutation(len(whole))
    for mine, theirs in zip(tokens.padded(rows), whole.padded(rows), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_shards_of_words_without_a_vocabulary_are_refused(tmp_path, read):
    captions, folder = {"captions": tmp_path / "corpus/captions.parquet"}, tmp_path / "cut"
    part = PartSpec(to_dict(WORDS), ITEMS, 0, 1)
    with pytest.raises(VseppError, match="shards need a vocabulary of all captions"):
        make(STEPS["tokens_part"], part, captions, folder / "part-000")
    assert not folder.exists() or not list(folder.rglob("*.npy"))
