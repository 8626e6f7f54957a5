"""Trained models as reports find them: hand-written metrics and histories, with manifests."""

from __future__ import annotations

import json

import numpy as np

from vsepp.evaluation.metrics import DirectionMetrics, RetrievalMetrics
from vsepp.evaluation.protocols import Evaluation
from vsepp.evaluation.ranks import Ranks
from vsepp.provenance.digests import path_digest
from vsepp.provenance.manifest import artefact_digest, write_manifest
from vsepp.reporting.records import read_records
from vsepp.reporting.specs import MakerSpec, TrainedSpec

CLEAN, DIRTY = {"commit": "abc", "dirty": False}, {"commit": "abc", "dirty": True}
I2T, T2I = (41.0, 76.0, 86.0, 2, 5.5), (30.0, 66.0, 80.0, 3, 9.0)


class Models:
    """Writes what training and evaluation leave behind, as far as reports read it."""

    def __init__(self, root):
        self.root, self.specs = root, {}

    def add(
        self, name, i2t=I2T, t2i=T2I, protocol="5x1K", seed=0, history=(10.0, 20.0), git=CLEAN, trained=CLEAN, behind=(),
        fold_size=100, n_images=500, collapsed=False,
    ):  # fmt: skip
        """A model: R@1, R@5, R@10, Med r and Mean r both ways. `behind`: dotted roles of what was made with dirty code."""
        run, evaluation = (self.root / kind / name / f"seed-{seed}" for kind in ("runs", "evaluations"))
        run.mkdir(parents=True)
        evaluation.mkdir(parents=True)
        (run / "model.safetensors").write_text(f"{name} {seed}")
        if history:
            end = int(collapsed)
            lines = [
                f"{epoch},{10 / epoch},{r1},{r1 - 5},{6 * r1},{end}"
                for epoch, r1 in enumerate(history, start=1)
            ]
            heads = "epoch,loss,i2t_r1,t2i_r1,rsum,collapsed"
            (run / "history.csv").write_text("\n".join([heads, *lines]) + "\n")
        ancestors = {role: {"step": role.rpartition(".")[2], **DIRTY} for role in behind}
        seal(run, "train", trained, {k.removeprefix("run."): v for k, v in ancestors.items()})
        scores = RetrievalMetrics(DirectionMetrics(*i2t), DirectionMetrics(*t2i))
        captions = np.arange(5 * n_images)
        found = Evaluation(
            protocol, fold_size, "dot", (scores,), Ranks(np.zeros(n_images), captions), captions
        )
        (evaluation / "metrics.json").write_text(json.dumps({protocol: found.to_dict()}))
        ancestors["run"] = {"step": "train", "spec_digest": "s", "code_digest": "c", **trained}
        seal(evaluation, "evaluate", git, ancestors, {"run": artefact_digest(run)})
        makers = {part: MakerSpec(f"{part}-target", "s", "c") for part in ("run", "evaluation")}
        spec = TrainedSpec(name, seed, str(run), str(evaluation), makers, trained=bool(history))
        self.specs.setdefault(name, []).append(spec)
        return spec

    @property
    def all(self):
        return tuple(spec for seeds in self.specs.values() for spec in seeds)

    @property
    def records(self):
        return read_records(self.all)


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
