"""What the authors published, given in a folder of one's own: features with captions, and checkpoints."""

import csv
import json

import numpy as np
import pytest
from legacy_files import PROGRESS, image_state, text_state, vocabulary, write_pickle, write_released

pytestmark = [pytest.mark.workflow, pytest.mark.whole]

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "red", "disc", "square", "left", "of", "."]
FEATURE, WORD, JOINT = 16, 64, 128
COLOURS = ["red", "green", "blue", "white", "black", "yellow"]


@pytest.fixture
def archives(tmp_path):
    """A folder of features, half of them with a row for each caption, and a checkpoint trained on such features."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "archives" / "f30k_precomp"
    folder.mkdir(parents=True)
    for prefix, images, rows in (("train", 40, 5), ("dev", 12, 1), ("test", 20, 5)):
        features = rng.standard_normal((images, FEATURE), dtype=np.float32)
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        np.save(folder / f"{prefix}_ims.npy", np.repeat(features, rows, axis=0))
        captions = [
            f"A {COLOURS[image % 6]} disc and a {COLOURS[image // 6 % 6]} square ." for image in range(images)
        ]
        (folder / f"{prefix}_caps.txt").write_text("".join(f"{text}\n" * 5 for text in captions))
    flags = {
        "data_name": "f30k_precomp", "img_dim": FEATURE, "embed_size": JOINT, "word_dim": WORD, "num_layers": 1,
        "measure": "cosine", "margin": 0.2, "max_violation": True, "use_abs": False, "no_imgnorm": False,
        "finetune": False, "use_restval": False, "cnn_type": "vgg19",
    }  # fmt: skip
    checkpoint = tmp_path / "archives/runs/f30k_vse++/model_best.pth.tar"
    checkpoint.parent.mkdir(parents=True)
    write_released(checkpoint, image_state(FEATURE, JOINT), text_state(len(WORDS), WORD, JOINT), flags)
    (tmp_path / "archives/vocab").mkdir()
    write_pickle(tmp_path / "archives/vocab/f30k_precomp_vocab.pkl", vocabulary(WORDS))
    return tmp_path / "archives"


def test_published_features_train_and_a_released_checkpoint_stands_beside_our_run(project, archives):
    config = {
        "label": "authors",
        "fidelity": "code",
        "archives": str(archives),
        "only": ["flickr-vsepp-1c"],
        "corpora": {"flickr": {"dataset": "scenes_flickr"}},
        "datasets": {"scenes_flickr": {"precomputed": {"1C": "f30k_precomp"}}},
    }
    project.make(**config)
    results = project.folder / "results/tiny/authors"
    run, released = ("flickr-vsepp-1c-published/seed-0", "flickr-released-vsepp-published/seed-0")
    spec = json.loads((results / "runs" / run / "config.json").read_text())
    assert spec["image_features"] == "precomputed"
    # Nothing but these features was computed with: no store, no encoder, none of the generated captions.
    inputs = json.loads((results / "runs" / run / "manifest.json").read_text())["inputs"]
    assert set(inputs) == {"corpus", "tokens", "features"}
    model = json.loads((results / "runs" / released / "manifest.json").read_text())
    assert model["facts"]["Eiters"] == PROGRESS["Eiters"]
    with np.load(results / "runs" / released / "embeddings.npz") as arrays:
        assert arrays["image_embeddings"].shape == (20, JOINT)
        assert arrays["caption_embeddings"].shape == (100, JOINT)
    report = project.folder / "reports/tiny/authors/vsepp"
    with (report / "tables/table3.csv").open() as stream:
        rows = {row["row"]: row for row in csv.DictReader(stream)}
    metrics = json.loads((results / "evaluations" / released / "metrics.json").read_text())
    assert float(rows["3.10"]["released_i2t_r1"]) == metrics["1K"]["i2t"]["r1"]
    assert rows["3.10"]["ours_i2t_r1"] and not rows["3.8"]["released_i2t_r1"]
    assert "released" in (report / "index.html").read_text()
    assert project.planned("reproduce_tables", **config) == {}
