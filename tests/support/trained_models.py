"""Trained models as reports find them: hand-written metrics, ranks and histories, with manifests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from vsepp.base.digests import path_digest
from vsepp.base.files import write_arrays
from vsepp.base.manifest import artefact_digest, read_manifest, write_manifest
from vsepp.base.publish import EMBEDDINGS
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.paper import DirectionMetrics, RetrievalMetrics, metrics_of_folds, retrieval_metrics
from vsepp.evaluation.ranks import TaskRanks
from vsepp.report.entries import TrainedSpec
from vsepp.report.records import read_models

CLEAN, DIRTY = {"commit": "abc", "dirty": False}, {"commit": "abc", "dirty": True}
TRAINING = {
    "facts": {"best_epoch": 2, "epochs": 2, "pairs_per_second": 1234.5, "device": "cpu"},
    "machine": {"platform": "p", "processor": "a processor", "python": "3", "cores": 2},
    "peak_memory_bytes": 500_000_000,
    "wall_seconds": 6.0,
}
WHOLE = {
    "step": "step",
    "spec": {},
    "spec_digest": "s",
    "code_digest": "c",
    "inputs": {},
    "ancestors": [],
    "outputs": {},
    "seed": None,
    "git": CLEAN,
    "versions": {},
    **TRAINING,
    "facts": {},
}
"""A manifest where a test does not care what it holds."""
OWN = {"system": "VSE++", "encoder": "vgg", "finetuned": "no", "dataset": "coco", "trainset": "RC"}
"""What a row of one's own says of its run."""
I2T, T2I = (41.0, 76.0, 86.0, 2, 5.5), (30.0, 66.0, 80.0, 3, 9.0)


class Models:
    """Writes what training and evaluation leave behind, as far as reports read it."""

    def __init__(self, root):
        self.root, self.specs = root, {}

    def add(
        self, name, i2t=I2T, t2i=T2I, protocol="5x1K", seed=0, history=(10.0, 20.0), git=CLEAN, trained=CLEAN, behind=(),
        fold_size=100, n_images=500, ranks=None, collapsed=False, made_from=None,
        measured_on=None, reranked=0, curriculum=0.0,
    ):  # fmt: skip
        """A model: R@1, R@5, R@10, Med r and Mean r both ways. `behind`: steps behind its training that dirty code made.

        Its ranks have these recalls; `ranks`, of five captions an image, stand in the place of both. `history` is R@1 of
        caption retrieval epoch by epoch; rsum is six times that. `collapsed` is said of the last epoch. `measured_on`: a dirty step behind its evaluation alone. `made_from`: digest of its features, of which all have the same parameters.
        `reranked`: how many items of a query a matcher scored again. `curriculum`: part of the epochs that SH trains.
        """
        run, evaluation = (self.root / kind / name / f"seed-{seed}" for kind in ("runs", "evaluations"))
        run.mkdir(parents=True)
        evaluation.mkdir(parents=True)
        (run / "model.safetensors").write_text(f"{name} {seed}")
        if history:
            heading = "epoch,loss,i2t_r1,t2i_r1,rsum,collapsed,seconds"
            lines = [
                f"{epoch},{10 / epoch},{r1},{r1 - 5},{6 * r1},{int(collapsed and epoch == len(history))},2.5"
                for epoch, r1 in enumerate(history, start=1)
            ]
            (run / "history.csv").write_text("\n".join([heading, *lines]) + "\n")
        blank = {"digest": "d", "spec_digest": "s", "code_digest": "c"}
        ancestors = [{"step": step, **blank, **DIRTY} for step in behind]
        seal(run, "train", trained, ancestors, **TRAINING)
        write_evaluation(evaluation, protocol, fold_size, n_images, i2t, t2i, ranks, reranked)
        own = {"step": "train", "spec_digest": "s", "code_digest": "c", "digest": artefact_digest(run)}
        ancestors = [*ancestors, {**own, **trained}]
        if measured_on:
            ancestors.append({"step": measured_on, **blank, **DIRTY})
        if made_from:
            features = {"step": "features", "spec_digest": "f", "code_digest": "c", "digest": made_from}
            ancestors.append({**features, **CLEAN})
        parameters = {
            "id": name,
            "init_seed": seed,
            "loss": {"name": name},
            "dataset": name,
            "only": name,
        }
        if curriculum:
            parameters["loss"]["curriculum"] = curriculum
            parameters["schedule"] = {"epochs": len(history)}
        seal(evaluation, "evaluate", git, ancestors, {"run": artefact_digest(run)}, spec={"run": parameters})
        digests = {"run": "s", "evaluation": "s"}
        spec = TrainedSpec(name, seed, bool(history), str(run), str(evaluation), digests)
        self.specs.setdefault(name, []).append(spec)
        return spec

    def keep_test_set(self, spec, tested, evaluation, pictures):
        """Give a model that was added the test set that it embedded, an evaluation of that, and a folder of pictures."""
        run, folder = Path(spec.run), Path(spec.evaluation)
        tested.save(run / EMBEDDINGS)
        trained, evaluated = read_manifest(run), read_manifest(folder)
        outputs = {**trained["outputs"], EMBEDDINGS: path_digest(run / EMBEDDINGS)}
        write_manifest(run, {**trained, "outputs": outputs})
        save([evaluation], folder)
        own = {
            "step": "train",
            "spec_digest": "s",
            "code_digest": "c",
            "digest": artefact_digest(run),
            **CLEAN,
        }
        seal(folder, "evaluate", CLEAN, [own], {"run": own["digest"]}, spec=evaluated["spec"])
        self.specs[spec.model][-1] = replace(spec, pictures=str(pictures))

    @property
    def all(self):
        return tuple(spec for seeds in self.specs.values() for spec in seeds)

    @property
    def records(self):
        return read_models(self.all)


def write_evaluation(folder, protocol, fold_size, n_images, i2t, t2i, ranks=None, reranked=0):
    """What an evaluation writes: hand-written metrics, or the metrics of ranks; all captions of an image with the rank of the best."""
    scores = RetrievalMetrics(DirectionMetrics(*i2t), DirectionMetrics(*t2i))
    if ranks is None:
        ranks = ranks_of(with_recalls(n_images, *i2t[:3]), with_recalls(5 * n_images, *t2i[:3]))
        folds = [scores] * (n_images // fold_size)
    else:
        n_images = len(ranks["i2t"].best)
        ranks = ranks_of(ranks["i2t"].best, ranks["t2i"].best, fold_size)
        scores, folds = retrieval_metrics(ranks), metrics_of_folds(ranks)
    metrics = {
        "protocol": protocol,
        "fold_size": fold_size,
        "folds": len(folds),
        "n_images": n_images,
        "n_captions": 5 * n_images,
        "similarity": "dot",
        **({"reranked": reranked} if reranked else {}),
        **scores.to_dict(),
        "per_fold": [fold.to_dict() for fold in folds],
    }
    (folder / "metrics.json").write_text(json.dumps({protocol: metrics}, indent=1) + "\n")
    captions = np.arange(5 * n_images)
    arrays = {"i2t": ranks["i2t"].best, "i2t_captions": ranks["i2t"].ranks, "t2i": ranks["t2i"].best}
    arrays |= {"caption_rows": captions, "caption_images": captions // 5}
    write_arrays(
        folder / "ranks.npz",
        compressed=True,
        **{f"{protocol}_{part}": array for part, array in arrays.items()},
    )
    if reranked:
        lists = {f"{protocol}_t2i_items": np.zeros((5 * n_images, reranked), np.int64)}
        write_arrays(folder / "best.npz", **lists)


def ranks_of(i2t, t2i, fold=None, owner=None):
    """Ranks of all captions of images, equal for each image, `(n_images,)`, and of the images of captions, five an image if `owner` does
    not say more."""
    images = np.arange(len(i2t))
    owner = np.repeat(images, 5) if owner is None else owner
    fold, counts = fold or len(images), np.bincount(owner)
    return {
        "i2t": TaskRanks(np.append(0, np.cumsum(counts)), np.repeat(i2t, counts), images, fold),
        "t2i": TaskRanks(np.arange(len(t2i) + 1), np.asarray(t2i), owner, fold),
    }


def ranks_by_lot(i2t_r1, t2i_r1=30, lot=0):
    """Ranks of 500 images with these R@1, spread by lot; of equal lots the better model finds what the other finds."""
    rng = np.random.default_rng(lot)
    sides = (
        np.where(rng.permutation(queries) < round(queries * recall / 100), 0.0, 20.0)
        for queries, recall in ((500, i2t_r1), (2500, t2i_r1))
    )
    return ranks_of(*sides)


def with_recalls(queries, r1, r5, r10):
    """Ranks of a number of queries, the best ones first, with these recalls."""
    ends = [round(queries * recall / 100) for recall in (r1, r5, r10)]
    return np.select([np.arange(queries) < end for end in ends], [0.0, 1.0, 5.0], 20.0)


def write_pictures(folder, captions, jpeg=b""):
    """Pictures of a test split, all alike; id of an image → its captions, `(row, text)` each."""
    folder.mkdir()
    offsets = len(jpeg) * np.arange(len(captions) + 1)
    np.savez(folder / "pictures.npz", jpegs=np.frombuffer(len(captions) * jpeg, np.uint8), offsets=offsets)
    images = [{"id": str(image), "captions": texts} for image, texts in captions.items()]
    (folder / "captions.json").write_text(json.dumps(images), encoding="utf-8")


def seal(folder, step, git, ancestors, inputs=None, **changes):
    """A manifest with what reports read of it."""
    outputs = {path.name: path_digest(path) for path in folder.iterdir() if path.name != "manifest.json"}
    manifest = {**WHOLE, "step": step, "outputs": outputs, "inputs": inputs or {}}
    write_manifest(folder, {**manifest, "ancestors": ancestors, "git": git, **changes})
