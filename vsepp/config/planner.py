"""From resolved parameters to the plan: names, specs and what reads what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vsepp.config.files import Value
from vsepp.config.plan import (
    DOWNLOADS,
    Features,
    Plan,
    Released,
    Run,
    SourceFile,
    Store,
    Tape,
    Tokens,
)
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
    SourceSpec,
    StoreSpec,
    VocabularySpec,
    to_dict,
)


def make_plan(folder: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Read `params/` with overrides and lay out every artefact; see `vsepp.config.resolve.load`."""
    return _Planner(load(Path(folder), overrides)).plan()


def _plain(values: Mapping[str, Value]) -> dict[str, Any]:
    return {key: value.value for key, value in values.items()}


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
        self.encoder_files: dict[str, Path] = {}
        self.features: dict[str, Features] = {}
        self.precomputed: dict[str, str] = {}
        self.tapes: dict[str, Tape] = {}
        self.files: dict[str, SourceFile] = {}
        self._results = Path("results") / parameters.settings.preset
        self._variant_results = self._results / parameters.variant

    def plan(self) -> Plan:
        # Shared artefacts follow from all runs of the preset, so that choosing some of them changes no artefact.
        all_runs = self.parameters.all_runs
        runs = {run: self._run(run, _plain(all_runs[run])) for run in self.parameters.possible_runs}
        released = self._released()
        # A tape is named after the splits that it holds, which is known once all its readers are.
        tape_names = {key: f"{key}-{'-'.join(tape.splits)}" for key, tape in self.tapes.items()}
        return Plan(
            parameters=self.parameters,
            files=self.files,
            scenes=self.scenes,
            scenes_folder=self._scenes_folder(),
            pretraining=self.pretraining,
            corpora=self.corpora,
            tokens=self.tokens,
            stores=self.stores,
            encoders=self.encoders,
            encoder_files=self.encoder_files,
            features=self.features,
            precomputed=self.precomputed,
            tapes={tape_names[key]: tape for key, tape in self.tapes.items()},
            runs={
                name: replace(runs[name], tape=tape_names.get(runs[name].tape or ""))
                for name in self.parameters.runs
            },
            released=released,
        )

    def _scenes_folder(self) -> Path | None:
        return Path("resources") / f"scenes-{_key(self.scenes)}" if self.scenes else None

    def _run(self, run: str, values: Mapping[str, Any]) -> Run:
        published = self._published(values)
        corpus = self._corpus(values["dataset"], published)
        specs = {
            seed: self._spec(run, values, seed, published is not None)
            for seed in self.parameters.settings.seeds
        }
        spec = next(iter(specs.values()))
        common: dict[str, Any] = {
            "specs": specs,
            "corpus": corpus,
            "tokens": self._tokens(corpus, spec.vocabulary),
            "protocols": tuple(sorted({*values["feeds"].values(), *values["protocols"]})),
        }
        if published is not None:
            features = f"{corpus}-published"
            self.precomputed[features] = corpus
            return Run(
                **common,
                encoder=None,
                features=features,
                eval_features=features,
                tape=None,
                train_store=None,
                eval_store=None,
            )
        encoder = self._encoder(values["encoder"])
        evaluate_images = spec.live_encoder
        needs_tape = spec.trainset == "RC" and not spec.live_encoder
        eval_features = (
            None if evaluate_images else self._features(corpus, encoder, spec.eval_store, spec.eval_crop)
        )
        return Run(
            **common,
            encoder=encoder,
            features=eval_features if spec.trainset != "RC" else None,
            eval_features=eval_features,
            tape=self._tape(corpus, encoder, spec) if needs_tape and spec.rc_features == "tape" else None,
            train_store=self._store(corpus, spec.train_store) if spec.trainset == "RC" else None,
            eval_store=self._store(corpus, spec.eval_store) if evaluate_images else None,
        )

    def _released(self) -> dict[str, Released]:
        """Checkpoints whose two files are there, each as the run that it is a training of."""
        found = {}
        for name, keys in self.parameters.released.items():
            files = [self._own(keys.checkpoint), self._own(keys.vocabulary)]
            if keys.run not in self.parameters.runs or None in files:
                continue
            # As the authors trained and tested it, whichever fidelity the runs here have.
            model = self._run(name, _plain(self.parameters.as_code[keys.run]))
            first, spec = next(iter(model.specs.items()))
            tokens = f"{model.corpus}-{self.parameters.variant}-{name}"
            folder = self._variant_results / "runs" / name / "tokens"
            self.tokens[tokens] = Tokens(model.corpus, spec.vocabulary, folder, released=name)
            found[name] = Released(
                replace(model, specs={first: spec}, tokens=tokens, tape=None, train_store=None),
                *files,  # type: ignore[arg-type]
            )
        return found

    def _own(self, name: str) -> Path | None:
        """A file in the user's own folder, or put where downloads go; nothing where there is none."""
        archives = self.parameters.settings.archives
        folders = [Path(archives), DOWNLOADS] if archives else [DOWNLOADS]
        return next((folder / name for folder in folders if (folder / name).exists()), None)

    def _published(self, values: Mapping[str, Any]) -> str | None:
        """Data set of published features that a run takes: its data is one, or it prefers one that is given."""
        name = self.parameters.corpora[values["dataset"]].dataset
        entry = self.parameters.datasets[name]
        if entry.crops is not None:
            return name
        other = entry.precomputed.get(values["trainset"].partition("+")[0])
        if values["image_features"] == "computed" or other is None:
            return None
        files = self.parameters.datasets[other].files.values()
        return other if all(self._own(file) for file in files) else None

    def _spec(self, run: str, values: Mapping[str, Any], seed: int, published: bool) -> RunSpec:
        encoder = self._encoder_spec(values["encoder"])
        kind, _, restval = values["trainset"].partition("+")
        random_crops = kind == "RC"
        side = round(encoder.store_side * values["train_store_scale"]) if random_crops else encoder.store_side
        finetuned = values["finetune_from"] is not None
        splits = ("train", "restval") if restval else ("train",)
        # The released code counts the words of all splits of raw data, and those of train and val of features.
        every_split = ("train", "val") if published else self._splits_of(values["dataset"])
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
            image_features="precomputed" if published else "computed",
            precision=values["precision"],
        )

    def _splits_of(self, role: str) -> tuple[str, ...]:
        return ("train", "restval", "val", "test") if role == "coco" else ("train", "val", "test")

    def _corpus(self, role: str, published: str | None) -> str:
        keys = self.parameters.corpora[role]
        name = published or keys.dataset
        entry = self.parameters.datasets[name]
        if entry.generator:
            assert self.scenes  # checked when the parameters were resolved
            root = self._scenes_folder() / entry.generator  # type: ignore[operator]
            files = {role_of_file: str(root / file) for role_of_file, file in entry.files.items()}
            expected = self.scenes.images[entry.generator]
        else:
            files = {role_of_file: str(self._file(file)) for role_of_file, file in entry.files.items()}
            expected = dict(entry.expected_images)
        spec = CorpusSpec(
            name=name,
            reader=entry.reader,
            files=files,
            captions_per_image=entry.captions_per_image,
            surplus_captions=entry.surplus_captions,
            expected_images=expected,  # type: ignore[arg-type]
            reported_sha256={name: tuple(sums) for name, sums in entry.reported_sha256.items()},
            first_images=dict(keys.first_images or {}),
        )
        identity = replace(spec, files={}), _key(self.scenes) if entry.generator else None
        key = f"{role}-{_key(*identity)}"
        self.corpora[key] = spec
        return key

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

    def _encoder_spec(self, role: str) -> EncoderSpec:
        return EncoderSpec(name=role, **self.parameters.preset.encoders[role].model_dump(exclude={"title"}))

    def _encoder(self, role: str) -> str:
        spec = self._encoder_spec(role)
        made_by = [self.pretraining] if spec.weights == "scenes" else []
        key = f"{role}-{_key(spec, *made_by)}"
        self.encoders[key] = spec
        if spec.weights.startswith("file/"):
            self.encoder_files[key] = self._file(spec.weights.removeprefix("file/"))
        return key

    def _tokens(self, corpus: str, vocabulary: VocabularySpec) -> str:
        key = f"{corpus}-{'-'.join(vocabulary.splits)}-min{vocabulary.threshold}"
        self.tokens[key] = Tokens(corpus, vocabulary, self._results / "tokens" / key)
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
