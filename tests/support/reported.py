"""Trained models as reports find them: hand-written metrics, ranks and histories, with manifests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vsepp.base.files import path_digest
from vsepp.base.manifest import artefact_digest, write_manifest
from vsepp.evaluation import evaluate as protocols
from vsepp.evaluation.evaluate import Evaluation
from vsepp.evaluation.metrics import DirectionMetrics, RetrievalMetrics
from vsepp.evaluation.ranks import Ranks
from vsepp.report.entries import TrainedSpec
from vsepp.report.records import read_models

CLEAN, DIRTY = {"commit": "abc", "dirty": False}, {"commit": "abc", "dirty": True}
TRAINING = {
    "facts": {"best_epoch": 2, "epochs": 2, "pairs_per_second": 1234.5, "device": "cpu"},
    "machine": {"processor": "a processor"},
    "peak_memory_bytes": 5e8,
    "wall_seconds": 6.0,
}
I2T, T2I = (41.0, 76.0, 86.0, 2, 5.5), (30.0, 66.0, 80.0, 3, 9.0)


class Models:
    """Writes what training and evaluation leave behind, as far as reports read it."""

    def __init__(self, root):
        self.root, self.specs = root, {}

    def add(
        self, name, i2t=I2T, t2i=T2I, protocol="5x1K", seed=0, history=(10.0, 20.0), git=CLEAN, trained=CLEAN, behind=(),
        fold_size=100, n_images=500, ranks=None, collapsed=False, made_from=None, processor="a processor",
        measured_on=None, reranked=0,
    ):  # fmt: skip
        """A model: R@1, R@5, R@10, Med r and Mean r both ways. `behind`: steps behind its training that dirty code made.

        Its ranks have these recalls; `ranks`, of five captions an image, stand in the place of both. `history` is R@1 of
        caption retrieval epoch by epoch; rsum is six times that. `collapsed` is said of the last epoch. `measured_on`: a dirty step behind its evaluation alone. `made_from`: digest of its features, of which all have the same parameters.
        `reranked`: how many items of a query a matcher scored again.
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
        ancestors = [{"step": step, "digest": "d", **DIRTY} for step in behind]
        training = {**TRAINING, "machine": {"processor": processor}}
        seal(run, "train", trained, ancestors, **training)
        found = evaluation_of(protocol, fold_size, n_images, i2t, t2i, ranks)
        lists = {"t2i_items": np.zeros((5 * n_images, reranked), np.int64)} if reranked else {}
        protocols.save([replace(found, lists=lists)], evaluation)
        own = {"step": "train", "spec_digest": "s", "code_digest": "c", "digest": artefact_digest(run)}
        ancestors = [*ancestors, {**own, **trained}]
        if measured_on:
            ancestors.append({"step": measured_on, "digest": "d", **DIRTY})
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
        seal(evaluation, "evaluate", git, ancestors, {"run": artefact_digest(run)}, spec={"run": parameters})
        digests = {"run": "s", "evaluation": "s"}
        spec = TrainedSpec(name, seed, bool(history), str(run), str(evaluation), digests)
        self.specs.setdefault(name, []).append(spec)
        return spec

    @property
    def all(self):
        return tuple(spec for seeds in self.specs.values() for spec in seeds)

    @property
    def records(self):
        return read_models(self.all)


def evaluation_of(protocol="5x1K", fold_size=100, n_images=500, i2t=I2T, t2i=T2I, ranks=None):
    """What a protocol says of a model: of hand-written metrics, or of the ranks of images with five captions each."""
    scores = RetrievalMetrics(DirectionMetrics(*i2t), DirectionMetrics(*t2i))
    per_fold = [scores] * (n_images // fold_size)
    if ranks is None:
        ranks = Ranks(with_recalls(n_images, *i2t[:3]), with_recalls(5 * n_images, *t2i[:3]))
    else:
        n_images = len(ranks.i2t)
        per_fold = [
            protocols.retrieval_metrics(
                Ranks(ranks.i2t[start : start + fold_size], ranks.t2i[5 * start : 5 * (start + fold_size)])
            )
            for start in range(0, n_images, fold_size)
        ]
    captions = np.arange(5 * n_images)
    return Evaluation(protocol, fold_size, "dot", tuple(per_fold), ranks, captions, captions // 5)


def with_recalls(queries, r1, r5, r10):
    """Ranks of a number of queries, the best ones first, with these recalls."""
    ends = [round(queries * recall / 100) for recall in (r1, r5, r10)]
    return np.select([np.arange(queries) < end for end in ends], [0.0, 1.0, 5.0], 20.0)


def seal(folder, step, git, ancestors, inputs=None, **changes):
    """A manifest with what reports read of it."""
    outputs = {path.name: path_digest(path) for path in folder.iterdir() if path.name != "manifest.json"}
    manifest = {
        "step": step,
        "spec_digest": "s",
        "code_digest": "c",
        "outputs": outputs,
        "inputs": inputs or {},
    }
    write_manifest(folder, {**manifest, "ancestors": ancestors, "git": git, **changes})
