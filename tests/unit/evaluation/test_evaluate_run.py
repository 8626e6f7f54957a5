"""The test set of a trained run: what it reads and what it keeps."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_corpus as tiny
import torch
from cxc_files import write_rated
from embedded_sets import under
from rounding import assert_near
from safetensors.torch import save_file

from vsepp.base.errors import VseppError
from vsepp.base.run_spec import EvaluationSpec
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import read_tables, split_rows, write_tables
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.encode import encode_split, open_run
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.evaluate_run import evaluate_run
from vsepp.evaluation.ranks import kept_ranks
from vsepp.evaluation.test_set import TestSet
from vsepp.features.images import Features, open_eval_images
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding

CPU = tiny.CPU
RUN = tiny.change(tiny.FROZEN, model__similarity__name="order")
LIVE = tiny.change(tiny.LEGACY, model__similarity__name="order")


def saved(folder, run, corpus):
    """A run's folder as training leaves it; the encoder's weights in it are other ones than before training."""
    vocabulary = Vocabulary.read(corpus / "tokens")
    torch.manual_seed(1)
    encoder = build_encoder(run.encoder) if run.live_encoder else None
    model = JointEmbedding(run.model, 128, len(vocabulary), encoder).eval()
    folder.mkdir()
    weights = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    vocabulary.write(folder)
    return model


@pytest.fixture(scope="module")
def runs(corpus, tmp_path_factory):
    """Two runs, one with its encoder inside, and the places of all that they read."""
    root = tmp_path_factory.mktemp("made")
    model = saved(root / "run", RUN, corpus)
    inside = saved(root / "live", LIVE, corpus)
    return SimpleNamespace(root=root, corpus=corpus, model=model, live=inside)


def frozen(runs, **changes):
    return tiny.artefacts(runs.corpus, **{"run": runs.root / "run", **changes})


def live(runs, **changes):
    return tiny.artefacts(runs.corpus, **{"run": runs.root / "live", **changes})


def embedded(run, split, folders):
    """A split, as a run embeds it."""
    return encode_split(*open_run(run, split, folders, CPU), device=CPU)


def test_one_step_ranks_and_writes_what_the_parts_do(runs, tmp_path):
    by_hand = encode_split(
        runs.model,
        Features(np.load(runs.corpus / "features-vgg/features.npy"), sets=False),
        Tokens.load(runs.corpus / "tokens"),
        split_rows(*read_tables(runs.corpus / "corpus"), "test"),
        CPU,
    )
    assert np.array_equal(embedded(RUN, "test", frozen(runs)).scores.images, by_hand.scores.images)
    by_hand.save(tmp_path / "run" / "embeddings.npz")
    spec = EvaluationSpec(RUN, ("5x1K", "5K"), fold_size=1)
    tested = evaluate_run(spec, {"run": tmp_path / "run"}, tmp_path / "whole")
    save([under(by_hand, name, 1) for name in ("5x1K", "5K")], tmp_path / "parts")
    names = ["metrics.json", "ranks.npz"]
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == names
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    assert json.loads((tmp_path / "whole" / "metrics.json").read_text()) == {
        evaluation.protocol: evaluation.to_dict() for evaluation in tested
    }


def test_a_run_is_judged_by_cocos_ids(runs, tmp_path):
    """Its images are those of the corpus, with numbers for ids; the last caption is also correct for the first image."""
    images, captions = (
        pd.read_parquet(runs.corpus / f"corpus/{name}.parquet") for name in ("images", "captions")
    )
    ids = 1000 + np.arange(len(images))
    write_tables(tmp_path / "corpus", images.assign(image_id=ids.astype(str)), captions)
    rows = split_rows(*read_tables(runs.corpus / "corpus"), "test")
    image_ids, caption_ids = ids[rows.images], captions["caption_id"].to_numpy()[rows.captions]
    own = list(zip(caption_ids, image_ids[rows.caption_to_image], strict=True))
    (caption, image), (other, _) = own[0], own[-1]
    sis = [(*image_ids[:2], 1), (*image_ids[1:3], 3)]
    files = write_rated(tmp_path, own=own, sits=[(other, image, 4)], sts=[(caption, other, 4)], sis=sis)
    run, folder = tiny.FROZEN, tmp_path / "run"
    saved(folder, run, runs.corpus)
    embedded(run, "test", frozen(runs, run=folder)).save(folder / "embeddings.npz")
    spec = EvaluationSpec(run, ("5K", "cxc"), fold_size=1)
    inputs = {f"cxc_{role}": path for role, path in files.items()} | {"run": folder}
    _, judged = evaluate_run(spec, inputs | {"corpus": tmp_path / "corpus"}, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["cxc"] == judged.to_dict()
    ranks = kept_ranks(dict(np.load(tmp_path / "out" / "ranks.npz")), "cxc")
    assert ranks["t2i"].counts.tolist() == [1 + (row == other) for row in np.sort(caption_ids)]
    assert ranks["i2i"].counts.tolist() == [1, 1]


def test_ids_are_made_with_the_runs_words_where_none_are_given(runs):
    by_tokens, by_words = (
        embedded(RUN, "test", frozen(runs, **changes)) for changes in ({}, {"tokens": None})
    )
    assert np.array_equal(by_tokens.scores.captions, by_words.scores.captions)


def test_an_encoder_in_the_model_has_the_weights_that_were_trained(runs):
    tested = embedded(LIVE, "test", live(runs, encoder=None))
    rows = split_rows(*read_tables(runs.corpus / "corpus"), "test")
    images = open_eval_images(LIVE, tiny.artefacts(runs.corpus), sum(tiny.SPLITS.values()), tiny.CPU)
    with torch.inference_mode():
        expected = runs.live.embed_images(images.eval(rows.images))
    assert_near(torch.from_numpy(tested.scores.images), expected, 1e-5)


def test_what_does_not_belong_together_is_refused(runs, tmp_path):
    Tokens.from_lists([[1, 2]] * 3).save(tmp_path)
    few = tmp_path / "few"
    few.mkdir()
    np.save(few / "features.npy", np.zeros((3, 1, 4), np.float32))
    other = frozen(runs, tokens=tmp_path), frozen(runs, features=few)
    for run, folders, named in (
        (RUN, other[0], r"3 .*117"),
        (RUN, other[1], r"few/features\.npy.*\b3\b.*\b39\b"),
        (LIVE, live(runs, eval_store=None), "tiny.*eval_store"),
        (RUN, frozen(runs, run=tmp_path), r"vocabulary\.json"),
    ):
        with pytest.raises(VseppError, match=named):
            embedded(run, "test", folders)


def test_an_ensemble_is_of_the_same_captions_in_the_same_order(runs, tmp_path):
    spec = EvaluationSpec(RUN, ("5K",), fold_size=1, ensemble="both", second=RUN)
    tested = embedded(RUN, "test", frozen(runs))
    dot = TestSet(EmbeddingScores(tested.scores.images, tested.scores.captions), tested.caption_to_image)
    dot.save(tmp_path / "embeddings.npz")
    inputs = dict.fromkeys(("run", "second"), tmp_path)
    inputs |= {"corpus": runs.corpus / "corpus", "second_corpus": tmp_path / "other"}
    images, words = (pd.read_parquet(inputs["corpus"] / f"{name}.parquet") for name in ("images", "captions"))
    # Split into words, as published captions are.
    write_tables(inputs["second_corpus"], images, words.assign(text=words["text"] + " ."))
    (both,) = evaluate_run(spec, inputs, tmp_path / "both")
    assert both.metrics == under(dot).metrics
    kept = TestSet.read(tmp_path / "both" / "embeddings.npz", of_corpus=True)
    assert under(kept).metrics == both.metrics
    write_tables(inputs["second_corpus"], images, words.assign(text=words["text"].to_numpy()[::-1]))
    with pytest.raises(VseppError, match=r"ensemble both: caption \d+ "):
        evaluate_run(spec, inputs, tmp_path / "wrong")
