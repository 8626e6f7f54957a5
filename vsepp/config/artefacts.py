"""What the manifests of a plan's artefacts should say: the plan, seen by `vsepp verify`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vsepp.config.plan import Plan, Run
from vsepp.provenance import code
from vsepp.provenance.verify import Expected
from vsepp.spec import CorpusSpec, to_dict

PHASES = ("corpus", "features", "models", "results")
"""Of dvc.yaml, each made by the target `all_<phase>` of the workflow."""
RAW_ROLES = ("files",)
"""Keys of a corpus' spec that say where raw files lie here."""


def expected_artefacts(plan: Plan) -> list[Expected]:
    """Every artefact of a plan but the report, in the order in which they are made."""
    return [*_corpus(plan), *_features(plan), *_models(plan), *_results(plan)]


def _corpus(plan: Plan) -> Iterator[Expected]:
    if plan.scenes and plan.scenes_folder:
        yield Expected(
            plan.scenes_folder,
            "corpus",
            plan.scenes_folder / "manifest.json",
            to_dict(plan.scenes),
            code.scenes_code(),
            versioned=False,
        )
    for name, spec in plan.corpora.items():
        folder = corpus_folder(plan, name)
        yield Expected(
            folder,
            "corpus",
            folder / "images.parquet",
            to_dict(spec),
            code.corpus_code(spec),
            raw=_raw(spec),
            elsewhere=RAW_ROLES,
        )
    for job in plan.tokens.values():
        if not job.released:
            captions = {"captions": corpus_folder(plan, job.corpus) / "captions.parquet"}
            spec = to_dict(job.vocabulary)
            yield Expected(
                job.folder, "corpus", job.folder / "tokens.npz", spec, code.tokens_code(), captions
            )
    for name, store in plan.stores.items():
        folder = store_folder(plan, name)
        yield Expected(
            folder,
            "corpus",
            folder / "images.npy",
            to_dict(store.spec),
            code.store_code(),
            {"images": corpus_folder(plan, store.corpus) / "images.parquet"},
            versioned=False,
        )


def _features(plan: Plan) -> Iterator[Expected]:
    pretrained = list(plan.pretrained.values())
    for name, spec in plan.encoders.items():
        folder = encoder_folder(plan, name)
        if name in plan.pretrained:
            values = {"encoder": to_dict(spec), "pretraining": to_dict(plan.pretraining)}
            digest, inputs = code.pretraining_code(pretrained), {}
        else:
            values, digest = to_dict(spec), code.encoder_code(spec)
            inputs = {"weights": plan.encoder_files[name]} if name in plan.encoder_files else {}
        yield Expected(folder, "features", folder / "encoder.safetensors", values, digest, inputs)
    for name, job in plan.features.items():
        folder, spec = features_folder(plan, name), plan.encoders[job.encoder]
        yield Expected(
            folder,
            "features",
            folder / "features.npy",
            {"encoder": to_dict(spec), "crop": to_dict(job.crop)},
            code.features_code(spec),
            {"store": store_folder(plan, job.store), "encoder": encoder_folder(plan, job.encoder)},
        )
    for name, corpus in plan.precomputed.items():
        folder, spec = features_folder(plan, name), plan.corpora[corpus]
        yield Expected(
            folder,
            "features",
            folder / "features.npy",
            to_dict(spec),
            code.precomputed_code(spec),
            {"images": corpus_folder(plan, corpus) / "images.parquet"},
            raw=_raw(spec),
            elsewhere=RAW_ROLES,
        )


def _models(plan: Plan) -> Iterator[Expected]:
    for name, tape in plan.tapes.items():
        folder, spec = plan.results / "tapes" / name, plan.encoders[tape.encoder]
        yield Expected(
            folder,
            "models",
            folder,
            {
                "encoder": to_dict(spec),
                "crop": to_dict(tape.crop),
                "draw": tape.draw,
                "epochs": tape.epochs,
                "splits": list(tape.splits),
            },
            code.tape_code(spec),
            {
                "store": store_folder(plan, tape.store),
                "encoder": encoder_folder(plan, tape.encoder),
                "captions": corpus_folder(plan, tape.corpus) / "captions.parquet",
            },
            versioned=False,
        )
    for name in plan.models:
        for seed in plan.seeds_of(name):
            yield model_artefacts(plan, name, seed)["run"]
    for name, released in plan.released.items():
        folder = run_folder(plan, name, plan.seeds[0])
        job = plan.tokens[released.model.tokens]
        captions = {
            "captions": corpus_folder(plan, job.corpus) / "captions.parquet",
            "vocabulary": folder / "vocabulary.json",
        }
        yield Expected(
            job.folder,
            "models",
            job.folder / "tokens.npz",
            to_dict(job.vocabulary),
            code.tokens_code(),
            captions,
        )


def _results(plan: Plan) -> Iterator[Expected]:
    for name in plan.models:
        for seed in plan.seeds_of(name):
            made = model_artefacts(plan, name, seed)
            yield made["embeddings"]
            yield made["metrics"]


def model_artefacts(plan: Plan, name: str, seed: int) -> dict[str, Expected]:
    """`run`, `embeddings` and `metrics` of a run or a released checkpoint."""
    model, run = plan.models[name], run_folder(plan, name, seed)
    spec, embeddings = model.specs[seed], plan.variant_results / "embeddings" / name / f"seed-{seed}"
    metrics = metrics_folder(plan, name, seed)
    evaluation = {
        "protocols": list(model.protocols),
        "fold_size": plan.parameters.preset.evaluation.fold_size,
    }
    if released := plan.released.get(name):
        digest = code.released_code(spec)
        inputs = {"checkpoint": released.checkpoint, "vocabulary": released.vocabulary}
    else:
        digest, inputs = code.train_code(spec), _run_inputs(plan, model, seed)
    return {
        "run": Expected(run, "models", run / "model.safetensors", to_dict(spec), digest, inputs),
        "embeddings": Expected(
            embeddings,
            "results",
            embeddings / "embeddings.npz",
            {**to_dict(spec), "split": "test"},
            code.encode_code(spec),
            {"run": run, **_data_inputs(plan, model)},
        ),
        "metrics": Expected(
            metrics,
            "results",
            metrics / "metrics.json",
            evaluation,
            code.evaluate_code(),
            {"run": run, "embeddings": embeddings / "embeddings.npz"},
        ),
    }


def _raw(spec: CorpusSpec) -> dict[str, Path]:
    return {role: Path(path) for role, path in spec.files.items() if Path(path).is_file()}


def _run_inputs(plan: Plan, run: Run, seed: int) -> dict[str, Path]:
    """Role → folder of what a training reads."""
    inputs = _data_inputs(plan, run)
    if run.encoder:
        inputs["encoder"] = encoder_folder(plan, run.encoder)
    if run.tape:
        inputs["tape"] = plan.results / "tapes" / run.tape
    if run.train_store and not run.tape:
        inputs["train_store"] = store_folder(plan, run.train_store)
    if run.spec.finetune_from:
        inputs["init_from"] = run_folder(plan, run.spec.finetune_from, seed)
    return inputs


def _data_inputs(plan: Plan, run: Run) -> dict[str, Path]:
    """Role → folder of what encoding a split reads besides the model."""
    inputs = {"corpus": corpus_folder(plan, run.corpus), "tokens": plan.tokens[run.tokens].folder}
    if run.eval_features:
        inputs["features"] = features_folder(plan, run.eval_features)
    else:
        assert run.eval_store and run.encoder
        inputs["eval_store"] = store_folder(plan, run.eval_store)
        inputs["encoder"] = encoder_folder(plan, run.encoder)
    return inputs


def corpus_folder(plan: Plan, name: str) -> Path:
    """Tables of a corpus."""
    return plan.results / "corpora" / name


def store_folder(plan: Plan, name: str) -> Path:
    """Decoded images."""
    return plan.results / "stores" / name


def encoder_folder(plan: Plan, name: str) -> Path:
    """An encoder's weights."""
    return plan.results / "encoders" / name


def features_folder(plan: Plan, name: str) -> Path:
    """Cached features."""
    return plan.results / "features" / name


def run_folder(plan: Plan, name: str, seed: int) -> Path:
    """A trained or released model."""
    return plan.variant_results / "runs" / name / f"seed-{seed}"


def metrics_folder(plan: Plan, name: str, seed: int) -> Path:
    """Ranks and recalls of a model."""
    return plan.variant_results / "metrics" / name / f"seed-{seed}"
