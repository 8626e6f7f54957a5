import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_corpus as tiny
import torch
from closeness import assert_near
from safetensors.torch import save_file
from test_sets import under

from vsepp.base.errors import VseppError
from vsepp.base.run_spec import EvaluationSpec
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.tables import read_tables, split_rows, write_tables
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.encode import encode_split, open_run
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.ranks import kept_ranks
from vsepp.evaluation.run import evaluate_run, results_of
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
def made(corpus, tmp_path_factory):
    """Two runs, one with its encoder inside, and the places of all that they read."""
    root = tmp_path_factory.mktemp("made")
    model = saved(root / "run", RUN, corpus)
    inside = saved(root / "live", LIVE, corpus)
    return SimpleNamespace(root=root, corpus=corpus, model=model, live=inside)


def frozen(made, **changes):
    return tiny.artefacts(made.corpus, **{"run": made.root / "run", **changes})


def live(made, **changes):
    return tiny.artefacts(made.corpus, **{"run": made.root / "live", **changes})


def embedded(run, split, folders):
    """A split, as a run embeds it."""
    return encode_split(*open_run(run, split, folders, CPU), device=CPU)


def test_one_step_ranks_and_writes_what_the_parts_do(made, tmp_path):
    by_hand = encode_split(
        made.model,
        Features(np.load(made.corpus / "features-vgg/features.npy"), sets=False),
        Tokens.load(made.corpus / "tokens"),
        split_rows(*read_tables(made.corpus / "corpus"), "test"),
        CPU,
    )
    assert np.array_equal(embedded(RUN, "test", frozen(made)).scores.images, by_hand.scores.images)
    by_hand.save(tmp_path / "run" / "embeddings.npz")
    spec = EvaluationSpec(RUN, ("5x1K", "5K"), fold_size=1)
    found = evaluate_run(spec, {"run": tmp_path / "run"}, tmp_path / "whole")
    save([under(by_hand, name, 1) for name in ("5x1K", "5K")], tmp_path / "parts")
    names = ["metrics.json", "ranks.npz"]
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == names
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    assert json.loads((tmp_path / "whole" / "metrics.json").read_text()) == {
        evaluation.protocol: evaluation.to_dict() for evaluation in found
    }


def test_a_run_is_judged_by_cocos_ids(made, tmp_path):
    images, captions = read_tables(made.corpus / "corpus")
    columns = {name: images[name] for name in ("file_name", "container", "member", "split")}
    ids = 1000 + np.arange(len(images))
    tables = pd.DataFrame({"image_id": ids.astype(str), **columns})
    texts = pd.DataFrame({name: captions[name] for name in ("caption_id", "image_index", "text", "split")})
    write_tables(tmp_path / "corpus", tables, texts)
    rows = split_rows(images, captions, "test")
    image_ids, caption_ids = ids[rows.images], captions["caption_id"][rows.captions]
    own = list(zip(caption_ids, image_ids[rows.caption_to_image], strict=True))
    (one, first), (other, _) = own[0], own[-1]
    rated = {
        "sits": [(caption, image, 5, "c2i_original") for caption, image in own]
        + [(other, first, 4, "c2i_intrasim")],
        "sts": [(one, other, 4, "c2c_isim")],
        "sis": [(*image_ids[:2], 1, "i2i_csim"), (*image_ids[1:3], 3, "i2i_csim")],
    }
    texts = {
        "sits": ("COCO_val2014:sentid:{}", "COCO_val2014_{:012d}.jpg"),
        "sts": ("COCO_val2014:sentid:{}",) * 2,
        "sis": ("COCO_val2014_{:012d}.jpg",) * 2,
    }
    raw = {}
    for name, pairs in rated.items():
        raw[f"cxc_{name}"] = tmp_path / f"{name}.csv"
        lines = [
            ",".join([texts[name][0].format(a), texts[name][1].format(b), str(score), how])
            for a, b, score, how in pairs
        ]
        raw[f"cxc_{name}"].write_text("\n".join(["a,b,agg_score,sampling_method", *lines]))
    run = tiny.FROZEN
    model_folder = tmp_path / "run"
    saved(model_folder, run, made.corpus)
    embedded(run, "test", frozen(made, run=model_folder)).save(model_folder / "embeddings.npz")
    spec = EvaluationSpec(run, ("5K", "cxc"), fold_size=1)
    folders = {"run": model_folder, "corpus": tmp_path / "corpus"}
    own_captions, judged = evaluate_run(spec, folders | raw, tmp_path / "out")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert list(metrics) == ["5K", "cxc"] and metrics["cxc"] == judged.to_dict()
    # The caption with two images ranks at least as well as under its own alone.
    ranks = kept_ranks(dict(np.load(tmp_path / "out" / "ranks.npz")), "cxc")
    asked = int(np.flatnonzero(np.sort(caption_ids) == other)[0])
    assert ranks["t2i"].counts.tolist() == [1 + (place == asked) for place in range(len(caption_ids))]
    assert ranks["t2i"].best[asked] <= own_captions.ranks["t2i"].best[-1]
    assert list(ranks)[2:] == ["t2t", "i2i"] and ranks["i2i"].counts.tolist() == [1, 1]
    with pytest.raises(VseppError, match="whole numbers of COCO"):
        evaluate_run(spec, {**folders, **raw, "corpus": made.corpus / "corpus"}, tmp_path / "other")


def test_ids_are_made_with_the_runs_words_where_none_are_given(made):
    given, made_here = (embedded(RUN, "test", frozen(made, **changes)) for changes in ({}, {"tokens": None}))
    assert np.array_equal(given.scores.captions, made_here.scores.captions)


def test_an_encoder_in_the_model_has_the_weights_that_were_trained(made):
    found = embedded(LIVE, "test", live(made, encoder=None))
    rows = split_rows(*read_tables(made.corpus / "corpus"), "test")
    images = open_eval_images(LIVE, tiny.artefacts(made.corpus), sum(tiny.SPLITS.values()), tiny.CPU)
    with torch.inference_mode():
        expected = made.live.embed_images(images.eval(rows.images))
    assert_near(torch.from_numpy(found.scores.images), expected, 1e-5)


def test_what_does_not_belong_together_is_refused(made, tmp_path):
    Tokens.from_lists([[1, 2]] * 3).save(tmp_path)
    few = tmp_path / "few"
    few.mkdir()
    np.save(few / "features.npy", np.zeros((3, 1, 4), np.float32))
    other = frozen(made, tokens=tmp_path), frozen(made, features=few)
    missing = frozen(made, features=None), live(made, eval_store=None)
    for call, message in (
        (lambda: embedded(RUN, "test", other[0]), r"3 .*117"),
        (lambda: embedded(RUN, "test", other[1]), r"few/features\.npy.*\b3\b.*\b39\b"),
        (lambda: embedded(RUN, "test", missing[0]), r"tiny.*features"),
        (lambda: embedded(LIVE, "test", missing[1]), r"tiny.*eval_store"),
        (
            lambda: embedded(RUN, "test", frozen(made, run=tmp_path)),
            "vocabulary.json: no such file",
        ),
        (
            lambda: results_of(
                embedded(RUN, "test", frozen(made)), EvaluationSpec(RUN, ("5K", "1K"), 7), {}, tmp_path
            ),
            "1 × 7 = 7 test images, got 6",
        ),
    ):
        with pytest.raises(VseppError, match=message):
            call()


def test_an_ensemble_is_of_the_same_captions_in_the_same_order(made, tmp_path):
    spec = EvaluationSpec(RUN, ("5K",), fold_size=1, ensemble="both", second=RUN)
    found = embedded(RUN, "test", frozen(made))
    dot = TestSet(EmbeddingScores(found.scores.images, found.scores.captions), found.caption_to_image)
    dot.save(tmp_path / "embeddings.npz")
    inputs = dict.fromkeys(("run", "second"), tmp_path)
    inputs |= {"corpus": made.corpus / "corpus", "second_corpus": tmp_path / "other"}
    images, words = (pd.read_parquet(inputs["corpus"] / f"{name}.parquet") for name in ("images", "captions"))
    # Split into words, as published captions are.
    write_tables(inputs["second_corpus"], images, words.assign(text=words["text"] + " ."))
    (both,) = evaluate_run(spec, inputs, tmp_path / "both")
    assert both.metrics == under(dot).metrics
    kept = TestSet.read(tmp_path / "both" / "embeddings.npz", of_corpus=True)
    assert under(kept).metrics == both.metrics
    write_tables(inputs["second_corpus"], images, words.assign(text=words["text"].to_numpy()[::-1]))
    with pytest.raises(
        VseppError, match=r"ensemble both: caption \d+ of .* the same captions in the same order"
    ):
        evaluate_run(spec, inputs, tmp_path / "wrong")
