"""Submissions: what is written is what was evaluated, and what cannot be one is refused."""

import dataclasses
import re
import shutil

import numpy as np
import pytest
import yaml
from plans import PARAMS
from reported import CLEAN, seal
from submitted import OWNER, SAID, evaluated

from vsepp.cli import main
from vsepp.errors import VseppError
from vsepp.evaluation import protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.judged import Judged
from vsepp.evaluation.ranks import PositiveRanks
from vsepp.evaluation.truth import Gallery, own_captions
from vsepp.provenance.digests import file_digest
from vsepp.provenance.studies import read_results
from vsepp.reporting.compare import compare
from vsepp.reporting.ranked import read_evaluations
from vsepp.reporting.records import image_values
from vsepp.reporting.submissions import read_submission, write_submission


@pytest.fixture
def model(tmp_path):
    """Two seeds of a model."""
    return [read_results(None, evaluated(tmp_path / f"seed-{seed}", seed), trained=False) for seed in (0, 3)]


@pytest.fixture
def made(model, tmp_path):
    """A submission that is there."""
    return write_submission(tmp_path / "made", SAID, model).folder


def change(folder, **arrays):
    """Put arrays into the file of seed 0, and its digest into the card."""
    file = folder / "seed-0.npz"
    np.savez_compressed(file, **dict(np.load(file)) | arrays)
    edit(folder, files={**card_of(folder)["files"], file.name: file_digest(file)})


def card_of(folder):
    return yaml.safe_load((folder / "card.yaml").read_text())


def edit(folder, **keys):
    (folder / "card.yaml").write_text(yaml.safe_dump(card_of(folder) | keys))


def refusal(folder):
    with pytest.raises(VseppError) as refused:
        read_submission(folder)
    return str(refused.value)


def test_every_rank_comes_back_and_with_it_every_metric(model, made):
    found = read_submission(made)
    assert sorted(path.name for path in made.iterdir()) == ["card.yaml", "seed-0.npz", "seed-3.npz"]
    for kept, one in zip(model, found.models, strict=True):
        for name, values in kept.arrays.items():
            if name != "5x1K_caption_rows":
                np.testing.assert_array_equal(one.kept.arrays[name], values)
        assert (kept.arrays["5x1K_i2t_captions"] % 1 == 0.5).any(), "no ties"
        assert one.metrics["5x1K"]["rsum"] == pytest.approx(kept.metrics["5x1K"]["rsum"])
        assert image_values(one, "5x1K", "t2i_r5").mean() == pytest.approx(kept.metrics["5x1K"]["t2i"]["r5"])
    assert (found.card.test_captions_in_training, found.card.test_images_in_training) == ("no", "unknown")


def test_a_test_set_is_known_by_which_caption_belongs_to_which_image(model, made, tmp_path):
    digest = read_submission(made).card.truths["5x1K"].digest
    assert digest == own_captions(OWNER).digest
    owner = OWNER.copy()
    owner[[4, 5]] = owner[[5, 4]]
    other = read_results(None, evaluated(tmp_path / "ranks", owner=owner), trained=False)
    assert write_submission(tmp_path / "other", SAID, [other]).card.truths["5x1K"].digest != digest
    assert (tmp_path / "other/ranks.npz").is_file(), "a model without seeds"


def test_ranks_under_another_truth_come_back(tmp_path):
    """Two images of three ask; caption 9 is correct and not ranked."""
    gallery = Gallery.of(np.array([5, 5, 7, 8]), np.array([1, 2, 3, 4]))
    truth = gallery.truth(
        "cxc",
        i2t=(np.array([5, 5, 8]), np.array([1, 3, 9])),
        t2i=(np.array([1, 4]), np.array([5, 8])),
    )
    ranks = {
        "i2t": PositiveRanks(truth.i2t.starts, np.array([0.0, 1.5, 4.0])),
        "t2i": PositiveRanks(truth.t2i.starts, np.array([0.5, 2.0])),
    }
    folder = tmp_path / "judged"
    folder.mkdir()
    protocols.save([Judged(truth, "dot", (3, 4), ranks, {}, {})], folder)
    seal(folder, "evaluation", CLEAN, [])
    kept = read_results(None, folder, trained=False)
    found = write_submission(tmp_path / "made", SAID, [kept])
    assert found.card.truths["cxc"].digest == truth.digest
    (one,) = found.models
    np.testing.assert_equal(dict(one.kept.arrays), dict(kept.arrays))
    assert image_values(one, "cxc", "i2t_r1").mean() == pytest.approx(50)


def test_a_card_is_told_all_of_its_mistakes_at_once(model, tmp_path):
    said = {key: value for key, value in SAID.items() if key not in ("license", "command")}
    said |= {"licence": "MIT", "embed_dim": -1, "reference": "a book", "test_images_in_training": "perhaps"}
    with pytest.raises(VseppError) as refused:
        write_submission(tmp_path / "made", said, model)
    text = str(refused.value)
    assert "6 mistakes" in text and not (tmp_path / "made").exists()
    for part in (
        "did you mean license",
        "license: missing",
        "command: missing",
        "embed_dim",
        "reference",
        "perhaps",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("part", "change_to", "said"),
    [
        ("t2i", lambda twice: np.where(np.arange(200) == 7, -1, twice.astype(int)), "row 7 is -0.5, expected 0 to 7"),
        ("t2i", lambda twice: np.where(np.arange(200) == 7, 16, twice), "row 7 is 8, expected 0 to 7"),
        ("i2t_captions", lambda twice: np.where(np.arange(200) == 9, 80, twice), "row 9 is 40, expected 0 to 39"),
        ("t2i", lambda twice: twice[:-1], "199 and 200 ranks of 200 captions do not fit"),
        ("t2i", lambda twice: twice / 2, "expected whole numbers"),
        ("caption_images", lambda steps: steps[::-1], "captions of the images have digest"),
        ("caption_images", lambda steps: np.r_[steps[:-1], 9], "caption_to_image: row 199 is 48"),
    ],
)  # fmt: skip
def test_ranks_that_cannot_be_are_refused(made, part, change_to, said):
    name = f"5x1K_{part}"
    change(made, **{name: change_to(np.load(made / "seed-0.npz")[name])})
    text = refusal(made)
    assert re.search(said, text), text
    assert "seed-0" in text


def test_files_and_digests_must_be_those_of_the_card(made):
    card = (made / "card.yaml").read_text()
    shutil.copy(made / "seed-3.npz", made / "seed-0.npz")
    assert "seed-0.npz: has digest" in refusal(made)
    (made / "seed-0.npz").unlink()
    assert "has the files seed-3.npz, but by its card seed-0.npz, seed-3.npz" in refusal(made)
    (made / "card.yaml").write_text(card)
    edit(
        made, files={name: digest for name, digest in card_of(made)["files"].items() if name == "seed-3.npz"}
    )
    assert len(read_submission(made).models) == 1
    test = card_of(made)["truths"]["5x1K"]
    edit(made, truths={"5x1K": {**test, "digest": "0" * 64}})
    assert "captions of the images have digest" in refusal(made)
    edit(made, truths={"5x1K": {**test, "n_images": 10**15}})
    assert "200 captions do not fit" in refusal(made)
    edit(made, truths={"5x1K": {**test, "fold_size": 7}})
    assert "200 captions do not fit" in refusal(made)
    edit(made, truths={})
    assert "truths" in refusal(made)
    edit(made, truths={"5x1K": test, "1K": test})
    assert "has no 1K_t2i, 1K_i2t_captions, 1K_caption_images" in refusal(made)


@pytest.mark.parametrize(
    "text", ["- a list", "a: &a [*a]", "{? [1] : 2}", "name: !!python/object:os.system x", ""]
)
def test_yaml_that_is_no_card_is_refused(made, text):
    (made / "card.yaml").write_text(text)
    assert "card.yaml" in refusal(made)


def test_ranks_of_the_best_alone_are_no_submission(model, tmp_path):
    arrays = {name: values for name, values in model[0].arrays.items() if not name.endswith("i2t_captions")}
    with pytest.raises(VseppError, match="were not kept, evaluate again"):
        write_submission(tmp_path / "made", SAID, [dataclasses.replace(model[0], arrays=arrays)])


def test_a_recorded_run_fills_in_its_card(tmp_path, capsys):
    card = tmp_path / "card.yaml"
    keys = ("reference", "license", "open_weights", "test_captions_in_training", "test_images_in_training")
    card.write_text(yaml.safe_dump({key: SAID[key] for key in keys}))
    out = tmp_path / "made"
    command = ["submit", "f8k-vsepp-rc-neg2", "--params", str(PARAMS), "--preset", "flickr8k"]
    command += ["--config", "papers=[flickr8k_study]"]
    assert main([*command, "--card", str(card), "--output", str(out)]) == 0
    found = read_submission(out)
    said = found.card
    assert (said.name, said.data_set, said.similarity) == ("VSE++, f8k-vsepp-rc-neg2", "Flickr8k", "dot")
    assert (said.embed_dim, said.n_parameters, said.training_datasets) == (1024, 6265116, ("Flickr8k",))
    assert "snakemake --cores all reproduce_tables" in said.command and "f8k-vsepp-rc-neg2" in said.command
    assert said.truths["1K"].digest == own_captions(np.repeat(np.arange(1000), 5)).digest
    assert sum(file.stat().st_size for file in out.iterdir()) < 20_000
    assert main(["submit", str(out), "--check"]) == 0
    assert "on Flickr8k, 1K (digest 2e30c4793850); files of ranks: 1" in capsys.readouterr().out
    assert main([*command, "--output", str(tmp_path / "none")]) == 1
    assert "5 mistakes" in capsys.readouterr().err


def test_a_submission_is_compared_as_its_evaluation_is(model, made, tmp_path):
    """With models whose ranks are here, and with other submissions."""
    other = evaluated(tmp_path / "other", seed=5, noise=2.0)
    by_ranks, by_submission = (
        compare(side, other, "5x1K").to_dict() for side in (model[:1], tmp_path / "made")
    )
    assert by_submission["metrics"]["rsum"]["a"] == pytest.approx(
        np.mean([kept.metrics["5x1K"]["rsum"] for kept in model])
    )
    assert by_ranks["metrics"]["rsum"]["b"] == by_submission["metrics"]["rsum"]["b"]
    assert compare(made, made).to_dict()["metrics"]["rsum"]["difference"] == 0


def test_embeddings_are_evaluated_first(tmp_path):
    Embeddings(np.eye(2), np.eye(2), np.arange(2)).save(tmp_path / "a.npz")
    with pytest.raises(VseppError, match=r"vsepp evaluate .*a\.npz --output FOLDER"):
        read_evaluations(tmp_path / "a.npz")


def test_full_size_stays_small(tmp_path):
    """Ranks of 5,000 images and 25,000 captions, R@1 at 40 %, long-tailed as a model's are."""
    rng = np.random.default_rng(0)

    def ranks(n, most, r1):
        """P(rank ≥ k) = (1 + k / s) ** -1.1."""
        scale = 1 / ((1 - r1) ** (-1 / 1.1) - 1)
        return np.floor(scale * (rng.random(n) ** (-1 / 1.1) - 1)).clip(max=most)

    owner = np.repeat(np.arange(5000), 5)
    arrays = {"5K_t2i": ranks(25000, 4999, 0.4), "5K_i2t_captions": ranks(25000, 24000, 0.2)}
    arrays |= {"5K_caption_images": owner}
    own = {"n_images": 5000, "n_captions": 25000, "fold_size": 5000, "similarity": "dot", "rsum": 0.0}
    for truth, sizes in {"cxc": (5000, 35585, 24972, 35585), "eccv": (1261, 22550, 1332, 11279)}.items():
        for task, queries, positives in (("i2t", *sizes[:2]), ("t2i", *sizes[2:])):
            name = f"{truth}_{task}"
            arrays[name] = ranks(positives, 4999, 0.25)
            cuts = np.sort(rng.choice(np.arange(1, positives), queries - 1, replace=False))
            arrays[f"{name}_starts"] = np.r_[0, cuts, positives]
            arrays[f"{name}_images"] = rng.choice(5000, queries, replace=queries > 5000)
        arrays[f"{truth}_i2t_images"].sort()
    metrics = {"5K": own, "cxc": {**own, "truth": "c" * 64}, "eccv": {**own, "truth": "e" * 64}}
    kept = dataclasses.replace(
        read_results(None, evaluated(tmp_path / "any"), trained=False), metrics=metrics, arrays=arrays
    )
    found = write_submission(tmp_path / "made", SAID, [kept])
    assert (tmp_path / "made/ranks.npz").stat().st_size < 200_000
    assert found.models[0].metrics["5K"]["rsum"] > 100
