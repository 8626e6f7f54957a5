"""Every artefact of one invocation: its name, its spec and what it is made from. The Snakefile only looks up.

Artefacts that several variants share (corpora, stores, encoders, features) carry a digest of the parameters that
made them in their name, so that changed parameters make a new one and overwrite nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vsepp.config.resolve import Parameters, load
from vsepp.provenance.digests import value_digest
from vsepp.spec import (
    CorpusSpec,
    CropSpec,
    EncoderSpec,
    LossSpec,
    ModelSpec,
    PretrainingSpec,
    RunSpec,
    ScenesSpec,
    ScheduleSpec,
    StoreSpec,
    VocabularySpec,
    to_dict,
)


@dataclass(frozen=True)
class Tokens:
    """A corpus' captions as word ids of one vocabulary."""

    corpus: str
    vocabulary: VocabularySpec


@dataclass(frozen=True)
class Store:
    """A corpus' decoded images."""

    corpus: str
    spec: StoreSpec


@dataclass(frozen=True)
class Features:
    """1C or 10C features of a store."""

    store: str
    encoder: str
    crop: CropSpec


@dataclass(frozen=True)
class Tape:
    """Random-crop features of a store, for every caption of `splits` and every epoch."""

    corpus: str
    store: str
    encoder: str
    crop: CropSpec
    draw: int
    splits: tuple[str, ...]
    epochs: int


@dataclass(frozen=True)
class Run:
    """A run's spec for each seed and the artefacts that it reads, by name; absent ones are None."""

    specs: Mapping[int, RunSpec]
    corpus: str
    tokens: str
    encoder: str
    features: str | None
    eval_features: str | None
    tape: str | None
    train_store: str | None
    eval_store: str | None
    protocols: tuple[str, ...]

    @property
    def spec(self) -> RunSpec:
        """The spec of the first seed, for all that does not depend on the seed."""
        return next(iter(self.specs.values()))


@dataclass(frozen=True)
class Plan:
    """What one invocation computes."""

    parameters: Parameters
    scenes: ScenesSpec | None
    scenes_folder: Path | None
    pretraining: PretrainingSpec | None
    corpora: dict[str, CorpusSpec]
    tokens: dict[str, Tokens]
    stores: dict[str, Store]
    encoders: dict[str, EncoderSpec]
    features: dict[str, Features]
    tapes: dict[str, Tape]
    runs: dict[str, Run]

    @property
    def preset(self) -> str:
        """Name of the preset."""
        return self.parameters.settings.preset

    @property
    def variant(self) -> str:
        """Name of the variant: the fidelity, or the user's label."""
        return self.parameters.variant

    @property
    def seeds(self) -> list[int]:
        """Seeds of every run."""
        return list(self.parameters.settings.seeds)

    @property
    def pretrained(self) -> dict[str, EncoderSpec]:
        """Encoders whose weights are trained here, on scenes."""
        return {name: spec for name, spec in self.encoders.items() if spec.weights == "scenes"}

    def corpus_of(self, role: str) -> str | None:
        """Name of the corpus that plays a role, if a selected run needs it."""
        return next((run.corpus for run in self.runs.values() if run.spec.dataset == role), None)


def make_plan(folder: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Read `params/` with overrides and lay out every artefact; see `vsepp.config.resolve.load`."""
    return _Planner(load(Path(folder), overrides)).plan()


def _key(*parts: Any) -> str:
    return value_digest([to_dict(part) if hasattr(part, "__dataclass_fields__") else part for part in parts])[
        :8
    ]


class _Planner:
    """Collects artefacts while it walks over the runs."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        preset = parameters.preset
        self.scenes = ScenesSpec(**preset.scenes.model_dump()) if preset.scenes else None
        self.pretraining = PretrainingSpec(**preset.pretraining.model_dump()) if preset.pretraining else None
        self.corpora: dict[str, CorpusSpec] = {}
        self.tokens: dict[str, Tokens] = {}
        self.stores: dict[str, Store] = {}
        self.encoders: dict[str, EncoderSpec] = {}
        self.features: dict[str, Features] = {}
        self.tapes: dict[str, Tape] = {}

    def plan(self) -> Plan:
        # Shared artefacts follow from all runs of the preset, so that choosing some of them changes no artefact.
        runs = {run: self._run(run) for run in self.parameters.possible_runs}
        # A tape is named after the splits that it holds, which is known once all its readers are.
        tape_names = {key: f"{key}-{'-'.join(tape.splits)}" for key, tape in self.tapes.items()}
        return Plan(
            parameters=self.parameters,
            scenes=self.scenes,
            scenes_folder=self._scenes_folder(),
            pretraining=self.pretraining,
            corpora=self.corpora,
            tokens=self.tokens,
            stores=self.stores,
            encoders=self.encoders,
            features=self.features,
            tapes={tape_names[key]: tape for key, tape in self.tapes.items()},
            runs={
                name: replace(runs[name], tape=tape_names.get(runs[name].tape or ""))
                for name in self.parameters.runs
            },
        )

    def _scenes_folder(self) -> Path | None:
        return Path("resources") / f"scenes-{_key(self.scenes)}" if self.scenes else None

    def _run(self, run: str) -> Run:
        values = {key: value.value for key, value in self.parameters.all_runs[run].items()}
        corpus = self._corpus(values["dataset"])
        encoder = self._encoder(values["encoder"])
        specs = {seed: self._spec(run, values, seed) for seed in self.parameters.settings.seeds}
        spec = next(iter(specs.values()))
        evaluate_images = spec.live_encoder
        needs_tape = spec.trainset == "RC" and not spec.live_encoder
        eval_features = (
            None if evaluate_images else self._features(corpus, encoder, spec.eval_store, spec.eval_crop)
        )
        return Run(
            specs=specs,
            corpus=corpus,
            tokens=self._tokens(corpus, spec.vocabulary),
            encoder=encoder,
            features=eval_features if spec.trainset != "RC" else None,
            eval_features=eval_features,
            tape=self._tape(corpus, encoder, spec) if needs_tape and spec.rc_features == "tape" else None,
            train_store=self._store(corpus, spec.train_store) if spec.trainset == "RC" else None,
            eval_store=self._store(corpus, spec.eval_store) if evaluate_images else None,
            protocols=tuple(sorted({*values["feeds"].values(), *values["protocols"]})),
        )

    def _spec(self, run: str, values: Mapping[str, Any], seed: int) -> RunSpec:
        encoder = self.encoders[self._encoder(values["encoder"])]
        kind, _, restval = values["trainset"].partition("+")
        random_crops = kind == "RC"
        side = round(encoder.store_side * values["train_store_scale"]) if random_crops else encoder.store_side
        finetuned = values["finetune_from"] is not None
        splits = ("train", "restval") if restval else ("train",)
        every_split = tuple(self._splits_of(values["dataset"]))
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
            crop=CropSpec(kind, encoder.input_size, values["random_crop"], values["flip"])  # type: ignore[arg-type]
            if random_crops
            else CropSpec(kind, encoder.input_size),  # type: ignore[arg-type]
            vocabulary=VocabularySpec(
                every_split if values["vocabulary"] == "all_splits" else splits,
                values["vocabulary_threshold"],
            ),
            validation_images=self.parameters.corpora[values["dataset"]].validation_images,
            model=ModelSpec(**{name: values[name] for name in ModelSpec.__dataclass_fields__}),
            loss=LossSpec(
                name=values["loss"],
                margin=values["margin"],
                negative_set=values["negative_set"],
                mask_same_image=values["mask_same_image"],
                curriculum=values["curriculum"],
            ),
            schedule=ScheduleSpec(**{name: values[name] for name in ScheduleSpec.__dataclass_fields__}),
            encoder_mode=values["finetuned_mode" if finetuned else "frozen_mode"],
            legacy_steps=values["legacy_steps"],
            rc_features=values["rc_features"],
            init_seed=seed,
            order_seed=seed,
            draw=values["draw"],
        )

    def _splits_of(self, role: str) -> list[str]:
        return ["train", "restval", "val", "test"] if role == "coco" else ["train", "val", "test"]

    def _corpus(self, role: str) -> str:
        name = self.parameters.corpora[role].dataset
        entry = self.parameters.datasets[name]
        if entry.generator:
            assert self.scenes  # checked when the parameters were resolved
            root = self._scenes_folder() / entry.generator  # type: ignore[operator]
            files = {role_of_file: str(root / file) for role_of_file, file in entry.files.items()}
            expected = self.scenes.images[entry.generator]
        else:
            files = {
                role_of_file: str(self._raw_file(name, file)) for role_of_file, file in entry.files.items()
            }
            expected = dict(entry.expected_images)
        spec = CorpusSpec(
            name=name,
            reader=entry.reader,
            files=files,
            captions_per_image=entry.captions_per_image,
            surplus_captions=entry.surplus_captions,
            expected_images=expected,  # type: ignore[arg-type]
        )
        identity = replace(spec, files={}), _key(self.scenes) if entry.generator else None
        key = f"{role}-{_key(*identity)}"
        self.corpora[key] = spec
        return key

    def _raw_file(self, dataset: str, file: str) -> Path:
        archives = self.parameters.settings.archives
        if archives and (Path(archives) / file).exists():
            return Path(archives) / file
        return Path("resources") / dataset / file

    def _encoder(self, role: str) -> str:
        keys = self.parameters.preset.encoders[role]
        spec = EncoderSpec(name=role, **keys.model_dump(exclude={"title"}))
        made_by = [self.pretraining] if spec.weights == "scenes" else []
        key = f"{role}-{_key(spec, *made_by)}"
        self.encoders[key] = spec
        return key

    def _tokens(self, corpus: str, vocabulary: VocabularySpec) -> str:
        key = f"{corpus}-{'-'.join(vocabulary.splits)}-min{vocabulary.threshold}"
        self.tokens[key] = Tokens(corpus, vocabulary)
        return key

    def _store(self, corpus: str, spec: StoreSpec) -> str:
        key = f"{corpus}-{spec.resize}{spec.side}"
        self.stores[key] = Store(corpus, spec)
        return key

    def _features(self, corpus: str, encoder: str, store: StoreSpec, crop: CropSpec) -> str:
        stored = self._store(corpus, store)
        key = f"{stored}-{encoder}-{crop.kind}"
        self.features[key] = Features(stored, encoder, crop)
        return key

    def _tape(self, corpus: str, encoder: str, spec: RunSpec) -> str:
        stored = self._store(corpus, spec.train_store)
        epochs = spec.schedule.epochs
        key = f"{stored}-{encoder}-{_key(spec.crop)}-draw{spec.draw}-{epochs}epochs"
        known = self.tapes.get(key)
        splits = spec.train_splits if known is None else max(known.splits, spec.train_splits, key=len)
        self.tapes[key] = Tape(corpus, stored, encoder, spec.crop, spec.draw, splits, epochs)
        return key
