"""From resolved parameters to the table of artefacts: names, specs and what reads what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.components import describe
from vsepp.config.files import Value
from vsepp.config.parameters import Parameters
from vsepp.config.plan import DOWNLOADS, KINDS, Model, Plan, SourceFile, seeded
from vsepp.config.reports import report_spec
from vsepp.config.resolve import load
from vsepp.errors import VseppError
from vsepp.provenance.artefacts import Artefact
from vsepp.provenance.code import step_code
from vsepp.provenance.digests import value_digest
from vsepp.spec import (
    CorpusSpec,
    CropSpec,
    EncoderSpec,
    EvaluationSpec,
    FeaturesSpec,
    ModelSpec,
    PretrainedSpec,
    PretrainingSpec,
    RunSpec,
    ScenesSpec,
    ScheduleSpec,
    SourceSpec,
    StoreSpec,
    TapeSpec,
    VocabularySpec,
    to_dict,
)

# What of a model's folder others read; its history also holds seconds, by which two equal trainings differ.
_OF_MODEL = ("model.safetensors", "vocabulary.json")


def make_plan(folder: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Read `params/` with overrides and lay out every artefact; see `vsepp.config.resolve.load`."""
    return _Planner(load(Path(folder), overrides)).plan()


def _key(*parts: Any) -> str:
    return value_digest(to_dict(parts))[:8]


class _Planner:
    """Collects artefacts while it walks over the runs."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.preset = parameters.preset
        self.scenes = ScenesSpec(**self.preset.scenes.model_dump()) if self.preset.scenes else None
        self.files: dict[str, SourceFile] = {}
        self.models: dict[str, Model] = {}
        self.table: dict[tuple[str, str], Artefact] = {}
        self.results = Path("results") / parameters.settings.preset
        self.variant_results = self.results / parameters.variant

    def plan(self) -> Plan:
        # Shared artefacts follow from all runs of the papers, so that choosing some of them changes no artefact.
        for run in self.parameters.possible_runs:
            self._run(run)
        for paper in self.parameters.papers.values():
            for name, keys in paper.released.items():
                files = [self._own(keys.checkpoint), self._own(keys.vocabulary)]
                if keys.run in self.parameters.runs and None not in files:
                    self._released(name, keys.run, *files)  # type: ignore[arg-type]
        order = {kind: place for place, kind in enumerate(KINDS)}
        table = dict(sorted(self.table.items(), key=lambda item: order[item[0][0]]))
        plan = Plan(self.parameters, self.files, self.models, table)
        for paper in self.parameters.papers.values():
            spec = report_spec(plan, paper)
            report = Artefact(
                "report", paper.name, plan.reports / paper.name, "results", spec, step_code("report"),
                ("index.html",), spec.inputs,
            )  # fmt: skip
            table["report", paper.name] = report
        return plan

    def _add(
        self, kind: str, name: str, folder: Path, phase: str, step: str, spec: Any, **more: Any
    ) -> Artefact:
        """The artefact of a kind and name, entered where it is not in the table yet."""
        known = self.table.get((kind, name))
        if known is None:
            known = Artefact(kind, name, folder, phase, spec, step_code(step, spec), **more)
            self.table[kind, name] = known
        return known

    # --- What a run reads stands here, once ------------------------------------------------------------------

    def _inputs(self, spec: RunSpec, published: str | None) -> dict[str, Path]:
        """Role → folder of what encoding a split reads besides the model."""
        corpus = self._corpus(spec.dataset, published)
        inputs = {"corpus": corpus.folder, "tokens": self._tokens(corpus, spec.vocabulary).folder}
        if published is not None:
            inputs["features"] = self._published_features(corpus).folder
        elif spec.live_encoder:
            inputs["eval_store"] = self._store(corpus, spec.eval_store).folder
            inputs["encoder"] = self._encoder(spec.encoder).folder
        else:
            inputs["features"] = self._features(corpus, self._encoder(spec.encoder), spec).folder
        return inputs

    def _training_inputs(self, spec: RunSpec, published: str | None) -> dict[str, Path]:
        """Role → folder of what a training reads, except where it starts from."""
        inputs = self._inputs(spec, published)
        if published is None:
            corpus, encoder = self._corpus(spec.dataset, None), self._encoder(spec.encoder)
            inputs["encoder"] = encoder.folder  # read by few, but what every model of this encoder belongs to
            if spec.trainset == "RC" and not spec.live_encoder and spec.rc_features == "tape":
                inputs["tape"] = self._tape(corpus, encoder, spec).folder
            elif spec.trainset == "RC":
                inputs["train_store"] = self._store(corpus, spec.train_store).folder
        for role in describe("loss", spec.loss.name).constants.get("READS", ()):
            if role not in inputs:
                raise VseppError(
                    f"run {spec.id}: loss {spec.loss.name} reads {role!r}; this run has {', '.join(sorted(inputs))}"
                )
        return inputs

    def _run(self, run: str) -> None:
        """A run's trainings and evaluations, and all that they are made from."""
        values = self.parameters.all_runs[run]
        published = self._published(values)
        specs = {
            seed: self._spec(run, values, seed, published is not None)
            for seed in self.parameters.settings.seeds
        }
        first = next(iter(specs.values()))
        inputs, training = self._inputs(first, published), self._training_inputs(first, published)
        if run not in self.parameters.runs:
            return
        self.models[run] = Model(specs, self.parameters.protocols[run])
        for seed, spec in specs.items():
            read = dict(training)
            if spec.finetune_from:
                read["init_from"] = self._model_folder(spec.finetune_from, seed)
            self._add(
                "run", seeded(run, seed), self._model_folder(run, seed), "models", "train", spec,
                files=_OF_MODEL, inputs=read, seed=seed,
            )  # fmt: skip
            self._evaluation(run, spec, self.parameters.protocols[run], inputs)

    def _released(self, name: str, run: str, checkpoint: Path, vocabulary: Path) -> None:
        """A checkpoint of the authors, as the run that it is a training of, under their code's fidelity."""
        values = self.parameters.as_code[run]
        published = self._published(values)
        seed = self.parameters.settings.seeds[0]
        spec = self._spec(name, values, seed, published is not None)
        inputs = self._inputs(spec, published)
        folder = self._model_folder(name, seed)
        self.models[name] = Model({seed: spec}, self.parameters.protocols[run], released=run)
        self._add(
            "released", seeded(name, seed), folder, "models", "released", spec,
            files=_OF_MODEL, raw={"checkpoint": checkpoint, "vocabulary": vocabulary}, seed=seed,
        )  # fmt: skip
        tokens = self._add(
            "tokens_of", name, folder.parent / "tokens", "models", "tokens", spec.vocabulary,
            files=("tokens.npz", "vocabulary.json"),
            inputs={"captions": inputs["corpus"] / "captions.parquet", "vocabulary": folder / "vocabulary.json"},
        )  # fmt: skip
        self._evaluation(name, spec, self.parameters.protocols[run], {**inputs, "tokens": tokens.folder})

    def _evaluation(
        self, model: str, run: RunSpec, protocols: tuple[str, ...], inputs: Mapping[str, Path]
    ) -> None:
        name = seeded(model, run.init_seed)
        spec = EvaluationSpec(run, protocols, self.preset.evaluation.fold_size)
        self._add(
            "evaluation", name, self.variant_results / "evaluations" / name, "results", "evaluate", spec,
            files=("embeddings.npz", "metrics.json", "ranks.npz"),
            inputs={"run": self._model_folder(model, run.init_seed), **inputs}, seed=run.init_seed,
        )  # fmt: skip

    def _model_folder(self, model: str, seed: int) -> Path:
        return self.variant_results / "runs" / seeded(model, seed)

    # --- Data ------------------------------------------------------------------------------------------------

    def _scenes(self) -> Artefact:
        assert self.scenes  # checked when the parameters were resolved
        name = _key(self.scenes)
        return self._add(
            "scenes", name, Path("resources") / f"scenes-{name}", "corpus", "scenes", self.scenes,
            seed=self.scenes.seed, versioned=False,
        )  # fmt: skip

    def _corpus(self, role: str, published: str | None) -> Artefact:
        keys = self.parameters.corpora[role]
        name = published or keys.dataset
        entry = self.parameters.datasets[name]
        inputs = {}
        if entry.generator:
            inputs["scenes"] = self._scenes().folder
            layout = inputs["scenes"] / entry.generator
            raw = {part: layout / file for part, file in entry.files.items()}
        else:
            raw = {part: self._file(file) for part, file in entry.files.items()}
        spec = CorpusSpec(
            name=name,
            reader=self.parameters.readers[name],
            captions_per_image=entry.captions_per_image,
            surplus_captions=entry.surplus_captions,
            expected_images=self.parameters.images(name),
            reported_sha256={file: tuple(sums) for file, sums in entry.reported_sha256.items()},
            first_images=dict(keys.first_images or {}),
        )
        key = f"{role}-{_key(spec, _key(self.scenes) if entry.generator else None)}"
        return self._add(
            "corpus", key, self.results / "corpora" / key, "corpus", "corpus", spec,
            files=("images.parquet", "captions.parquet"), inputs=inputs, raw=raw,
        )  # fmt: skip

    def _tokens(self, corpus: Artefact, vocabulary: VocabularySpec) -> Artefact:
        name = f"{corpus.name}-{'-'.join(vocabulary.splits)}-min{vocabulary.threshold}"
        return self._add(
            "tokens", name, self.results / "tokens" / name, "corpus", "tokens", vocabulary,
            files=("tokens.npz", "vocabulary.json"), inputs={"captions": corpus.folder / "captions.parquet"},
        )  # fmt: skip

    def _store(self, corpus: Artefact, spec: StoreSpec) -> Artefact:
        name = f"{corpus.name}-{spec.resize}{spec.side}"
        return self._add(
            "store", name, self.results / "stores" / name, "corpus", "store", spec,
            files=("images.npy",),
            inputs={"images": corpus.folder / "images.parquet", **corpus.inputs}, raw=corpus.raw,
            versioned=False,
        )  # fmt: skip

    def _own(self, name: str) -> Path | None:
        """A file in the user's own folder, or put where downloads go; nothing where there is none."""
        archives = self.parameters.settings.archives
        folders = [Path(archives), DOWNLOADS] if archives else [DOWNLOADS]
        return next((folder / name for folder in folders if (folder / name).exists()), None)

    def _file(self, name: str) -> Path:
        """Where a raw file is or will be: in the user's own folder if it is there, else among the downloads."""
        spec = SourceSpec(name)
        if keys := self.parameters.sources.get(name):
            values = keys.model_dump()
            spec = SourceSpec(
                name, **{**values, "mirrors": tuple(values["mirrors"]), "accepts": tuple(values["accepts"])}
            )
        archives = self.parameters.settings.archives
        path, own = DOWNLOADS / name, False
        if archives:
            candidates = [Path(archives) / known for known in (name, *spec.accepts)]
            if found := next((candidate for candidate in candidates if candidate.exists()), None):
                path, own = found, True
        self.files[name] = SourceFile(spec, path, own)
        return path

    # --- Encoders and features -------------------------------------------------------------------------------

    def _encoder(self, spec: EncoderSpec) -> Artefact:
        if spec.weights == "scenes":
            assert self.preset.pretraining  # checked when the parameters were resolved
            pretraining = PretrainingSpec(**self.preset.pretraining.model_dump())
            name = f"{spec.name}-{_key(spec, pretraining)}"
            return self._add(
                "pretrained", name, self.results / "encoders" / name, "features", "pretrain",
                PretrainedSpec(spec, pretraining), files=("encoder.safetensors",), seed=pretraining.seed,
            )  # fmt: skip
        name = f"{spec.name}-{_key(spec)}"
        raw = {}
        if spec.weights.startswith("file/"):
            raw["weights"] = self._file(spec.weights.removeprefix("file/"))
        return self._add(
            "encoder", name, self.results / "encoders" / name, "features", "encoder", spec,
            files=("encoder.safetensors",), raw=raw,
        )  # fmt: skip

    def _features(self, corpus: Artefact, encoder: Artefact, spec: RunSpec) -> Artefact:
        store = self._store(corpus, spec.eval_store)
        name = f"{store.name}-{encoder.name}-{spec.eval_crop.kind}"
        return self._add(
            "features", name, self.results / "features" / name, "features", "features",
            FeaturesSpec(spec.encoder, spec.eval_crop), files=("features.npy",),
            inputs={"store": store.folder, "encoder": encoder.folder},
        )  # fmt: skip

    def _published_features(self, corpus: Artefact) -> Artefact:
        name = f"{corpus.name}-published"
        return self._add(
            "published", name, self.results / "features" / name, "features", "precomputed", corpus.spec,
            files=("features.npy",), inputs={"images": corpus.folder / "images.parquet"}, raw=corpus.raw,
        )  # fmt: skip

    def _tape(self, corpus: Artefact, encoder: Artefact, run: RunSpec) -> Artefact:
        store, epochs = self._store(corpus, run.train_store), run.schedule.epochs
        # All captions that anybody may train on: which runs there are, of which papers, changes no tape.
        there = self.parameters.splits(self.parameters.corpora[run.dataset].dataset)
        splits = tuple(split for split in ("train", "restval") if split in there)
        name = f"{store.name}-{encoder.name}-{_key(run.crop)}-draw{run.draw}-{epochs}epochs"
        return self._add(
            "tape", name, self.results / "tapes" / name, "models", "tape",
            TapeSpec(run.encoder, run.crop, run.draw, epochs, splits),
            inputs={
                "store": store.folder,
                "encoder": encoder.folder,
                "captions": corpus.folder / "captions.parquet",
            },
            versioned=False,
        )  # fmt: skip

    # --- Specs -----------------------------------------------------------------------------------------------

    def _published(self, values: Mapping[str, Value]) -> str | None:
        """Data set of published features that a run takes: its data is one, or it prefers one that is given."""
        name = self.parameters.corpora[values["dataset"].value].dataset
        entry = self.parameters.datasets[name]
        if entry.crops is not None:
            return name
        other = entry.precomputed.get(values["trainset"].value.partition("+")[0])
        if values["image_features"].value == "computed" or other is None:
            return None
        files = self.parameters.datasets[other].files.values()
        return other if all(self._own(file) for file in files) else None

    def _spec(self, run: str, said: Mapping[str, Value], seed: int, published: bool) -> RunSpec:
        values = {key: value.value for key, value in said.items()}
        keys = self.preset.encoders[values["encoder"]]
        assert keys  # else the run is not possible
        encoder = EncoderSpec(name=values["encoder"], **keys.model_dump(exclude={"title"}))
        kind, _, restval = values["trainset"].partition("+")
        random_crops = kind == "RC"
        side = round(encoder.store_side * values["train_store_scale"]) if random_crops else encoder.store_side
        drawn = {"random": values["random_crop"], "flip": values["flip"]} if random_crops else {}
        splits = ("train", "restval") if restval else ("train",)
        # The released code counts the words of all splits of raw data, and those of train and val of features.
        there = self.parameters.splits(self.parameters.corpora[values["dataset"]].dataset)
        every_split = ("train", "val") if published else there
        counted = every_split if values["vocabulary"] == "all_splits" else splits
        finetuned = values["finetune_from"] is not None
        return RunSpec(
            id=run,
            system=values["system"],
            dataset=values["dataset"],
            trainset=kind,  # type: ignore[arg-type]
            restval=bool(restval),
            encoder=encoder,
            finetune_from=values["finetune_from"],
            train_store=StoreSpec(values["resize"], side),
            eval_store=StoreSpec(values["resize"], encoder.store_side),
            crop=CropSpec(kind, encoder.input_size, **drawn),  # type: ignore[arg-type]
            vocabulary=VocabularySpec(counted, values["vocabulary_threshold"]),
            validation_images=self.parameters.corpora[values["dataset"]].validation_images,
            model=ModelSpec(**{name: values[name] for name in ModelSpec.__dataclass_fields__}),
            loss=values["loss"],
            schedule=ScheduleSpec(**{name: values[name] for name in ScheduleSpec.__dataclass_fields__}),
            encoder_mode=values["finetuned_mode" if finetuned else "frozen_mode"],
            legacy_steps=values["legacy_steps"],
            rc_features=values["rc_features"],
            init_seed=seed,
            order_seed=seed,
            draw=values["draw"],
            image_features="precomputed" if published else "computed",
            precision=values["precision"],
        )
