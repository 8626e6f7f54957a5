"""From resolved parameters to the table of artefacts: names, specs and what reads what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from vsepp.components import describe
from vsepp.config.files import Value
from vsepp.config.papers import Paper
from vsepp.config.parameters import Parameters
from vsepp.config.plan import DOWNLOADS, KINDS, Model, Plan, SourceFile, seeded, study_folder
from vsepp.config.reports import report_spec
from vsepp.config.resolve import load
from vsepp.errors import VseppError
from vsepp.foreign import is_there
from vsepp.provenance.artefacts import Artefact
from vsepp.provenance.code import step_code
from vsepp.provenance.digests import value_digest
from vsepp.provenance.records import study_of
from vsepp.spec import (
    CorpusKeys,
    CorpusSpec,
    CropSpec,
    EncoderKeys,
    EncoderSpec,
    EvaluationSpec,
    FeaturesSpec,
    FigureDataSpec,
    ModelSpec,
    PicturesSpec,
    PretrainedSpec,
    RunSpec,
    ScheduleSpec,
    SourceSpec,
    StoreSpec,
    TapeSpec,
    VectorsSpec,
    VocabularySpec,
    from_dict,
    to_dict,
)


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
        self.scenes = self.preset.scenes
        self.files: dict[str, SourceFile] = {}
        self.models: dict[str, Model] = {}
        self.table: dict[tuple[str, str], Artefact] = {}

    def plan(self) -> Plan:
        # Shared artefacts follow from all runs of the papers, so that choosing some of them changes no artefact.
        for run in self.parameters.possible_runs:
            self._run(run)
        for paper in self.parameters.papers.values():
            for name, keys in paper.released.items():
                files = [self._own(keys.checkpoint), self._own(keys.vocabulary)]
                if keys.run in self.parameters.runs and None not in files:
                    self._released(name, keys.run, *files)  # type: ignore[arg-type]  # none is None
        for paper in self.parameters.papers.values():
            self._figures(paper)
        order = list(KINDS)
        self.table = dict(sorted(self.table.items(), key=lambda item: order.index(item[0][0])))
        plan = Plan(self.parameters, self.files, self.models, self.table)
        for paper in self.parameters.papers.values():
            spec = report_spec(plan, paper)
            self._add("report", paper.name, spec, inputs=spec.inputs)
        return plan

    def _add(self, kind: str, name: str, spec: Any, **more: Any) -> Artefact:
        """The artefact of a kind and name, entered where it is not in the table yet."""
        if (kind, name) not in self.table:
            of, folder = KINDS[kind], self._folder(kind, name)
            self.table[kind, name] = Artefact(
                kind,
                name,
                folder,
                of.phase,
                spec,
                step_code(of.step, spec),
                of.files,
                versioned=of.versioned,
                **more,
            )
        return self.table[kind, name]

    def _folder(self, kind: str, name: str) -> Path:
        settings = self.parameters.settings
        place = {"preset": settings.preset, "variant": self.parameters.variant, "name": name}
        return Path(KINDS[kind].folder.format(**place))

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
            if spec.reads == "tape":
                inputs["tape"] = self._tape(corpus, encoder, spec).folder
            elif spec.reads != "features":
                inputs["train_store"] = self._store(corpus, spec.train_store).folder
        return inputs

    def _loss_inputs(self, spec: RunSpec, published: str | None, read: Mapping[str, Path]) -> dict[str, Path]:
        """Role → folder of what a run's loss reads besides what its training reads."""
        loss = describe("loss", spec.loss.name)
        inputs: dict[str, Path] = {}
        for role in loss.constants.get("READS", ()):
            if role == "caption_vectors":
                encoder = getattr(loss.options(**spec.loss.options), "vectors", None)
                if encoder is None:
                    raise VseppError(
                        f"run {spec.id}: loss {spec.loss.name} reads {role!r}; it needs an option `vectors`, which says whose"
                    )
                inputs[role] = self._vectors(self._corpus(spec.dataset, published), encoder).folder
            elif role not in read:
                raise VseppError(
                    f"run {spec.id}: loss {spec.loss.name} reads {role!r}; this run has {', '.join(sorted(read))}"
                )
        return inputs

    def _run(self, run: str) -> None:
        """A run's trainings and evaluations, and all that they are made from."""
        values = self.parameters.all_runs[run]
        published = self._published(values)
        seeds = self.parameters.seeds(run)
        specs = {seed: self._spec(run, values, seed, published is not None) for seed in seeds or (0,)}
        first = next(iter(specs.values()))
        inputs, training = self._inputs(first, published), self._training_inputs(first, published)
        if published is None:
            corpus = self._corpus(first.dataset, None)
            self._pictures(corpus, self._store(corpus, first.eval_store))
        if run not in self.parameters.runs:
            return
        # Not of runs that are not trained: a sentence encoder need not be installed for them.
        training |= self._loss_inputs(first, published, training)
        kept = {seed for seed, spec in specs.items() if self._is_kept(run, spec)}
        self.models[run] = Model(specs, self.parameters.protocols[run], frozenset(kept))
        for seed, spec in specs.items():
            if seed in kept and (run, seed) not in self.starts:
                continue
            read = dict(training)
            if spec.finetune_from:
                read["init_from"] = self._folder("run", seeded(spec.finetune_from, seed))
            self._add("run", seeded(run, seed), spec, inputs=read, seed=seed)
            if seed not in kept:
                self._evaluation(run, spec, self.parameters.protocols[run], inputs)

    def _is_kept(self, run: str, spec: RunSpec) -> bool:
        evaluated = self._evaluation_spec(spec, self.parameters.protocols[run])
        return study_of(study_folder(self.parameters)).has(run, evaluated)

    @cached_property
    def starts(self) -> set[tuple[str, int]]:
        """Run and seed of what is fine-tuned in a training that is not kept: it needs their weights, records or not."""
        found = set()
        for run, values in self.parameters.runs.items():
            if start := values["finetune_from"].value:
                published = self._published(values) is not None
                for seed in self.parameters.seeds(run):
                    if not self._is_kept(run, self._spec(run, values, seed, published)):
                        found.add((start, seed))
        return found

    def _released(self, name: str, run: str, checkpoint: Path, vocabulary: Path) -> None:
        """A checkpoint of the authors, as the run that it is a training of, under their code's fidelity."""
        values = self.parameters.as_code[run]
        published = self._published(values)
        seed = self.parameters.settings.seeds[0]
        spec = self._spec(name, values, seed, published is not None)
        inputs = self._inputs(spec, published)
        self.models[name] = Model({seed: spec}, self.parameters.protocols[run], released=run)
        raw = {"checkpoint": checkpoint, "vocabulary": vocabulary}
        folder = self._add("released", seeded(name, seed), spec, raw=raw, seed=seed).folder
        read = {"captions": inputs["corpus"] / "captions.parquet", "vocabulary": folder / "vocabulary.json"}
        tokens = self._add("tokens_of", name, spec.vocabulary, inputs=read)
        self._evaluation(name, spec, self.parameters.protocols[run], {**inputs, "tokens": tokens.folder})

    def _evaluation(
        self, model: str, run: RunSpec, protocols: tuple[str, ...], inputs: Mapping[str, Path]
    ) -> None:
        name = seeded(model, run.init_seed)
        spec = self._evaluation_spec(run, protocols)
        self._add(
            "evaluation", name, spec, inputs={"run": self._folder("run", name), **inputs}, seed=run.init_seed
        )

    def _evaluation_spec(self, run: RunSpec, protocols: tuple[str, ...]) -> EvaluationSpec:
        return EvaluationSpec(run, protocols, self.preset.evaluation.fold_size)

    # --- Figures ---------------------------------------------------------------------------------------------

    def _figures(self, paper: Paper) -> None:
        """What is computed for the figures of a paper's report."""
        assert paper.tables
        for figure in paper.selected(self.preset.tables):
            keys = paper.tables.figures.get(figure)
            if keys and keys.kind in ("constellations", "weights"):
                given = keys.model_dump(
                    include={"kind", "positive", "negatives", "of", "others"}, exclude_none=True
                )
                spec = from_dict(FigureDataSpec, {**given, "losses": to_dict(keys.losses)})
                self._add("figure_data", f"{paper.name}/{figure}", spec)

    # --- Data ------------------------------------------------------------------------------------------------

    def _scenes(self) -> Artefact:
        assert self.scenes  # checked when the parameters were resolved
        return self._add("scenes", _key(self.scenes), self.scenes, seed=self.scenes.seed)

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
            **{
                **{field: getattr(entry, field) for field in CorpusKeys.__dataclass_fields__},
                "expected_images": self.parameters.images(name),
            },
            first_images=keys.first_images or {},
            leave_out=tuple(keys.leave_out or ()),
        )
        key = f"{role}-{_key(spec, _key(self.scenes) if entry.generator else None)}"
        return self._add("corpus", key, spec, inputs=inputs, raw=raw)

    def _tokens(self, corpus: Artefact, vocabulary: VocabularySpec) -> Artefact:
        name = f"{corpus.name}-{'-'.join(vocabulary.splits)}-min{vocabulary.threshold}"
        return self._add("tokens", name, vocabulary, inputs={"captions": corpus.folder / "captions.parquet"})

    def _vectors(self, corpus: Artefact, encoder: str) -> Artefact:
        splits = self._trainable(corpus.spec.name) if encoder == "tfidf" else ()
        spec = from_dict(VectorsSpec, {"encoder": encoder, "splits": splits})
        read = {"captions": corpus.folder / "captions.parquet"}
        return self._add("vectors", f"{corpus.name}-captions-{encoder}", spec, inputs=read)

    def _trainable(self, dataset: str) -> tuple[str, ...]:
        """Splits that anybody may train on: which runs there are, of which papers, changes nothing that is made of them."""
        there = self.parameters.splits(dataset)
        return tuple(split for split in ("train", "restval") if split in there)

    def _store(self, corpus: Artefact, spec: StoreSpec) -> Artefact:
        name = f"{corpus.name}-{spec.resize}{spec.side}{'-turned' * (spec.orientation == 'applied')}"
        read = {"images": corpus.folder / "images.parquet", **corpus.inputs}
        return self._add("store", name, spec, inputs=read, raw=corpus.raw)

    def _pictures(self, corpus: Artefact, store: Artefact) -> Artefact:
        """One set a corpus, whichever of its stores is met first: for people, not for models."""
        read = {"corpus": corpus.folder, "store": store.folder}
        shown = self.parameters.datasets[corpus.spec.name].photographs
        return self._add("pictures", corpus.name, PicturesSpec(photographs=shown), inputs=read)

    def _in_archives(self, *names: str) -> Path | None:
        """The first of these files that is in the user's own folder."""
        archives = self.parameters.settings.archives
        return next((path for name in names if archives and is_there(path := Path(archives) / name)), None)

    def _own(self, name: str) -> Path | None:
        """A file in the user's own folder, or put where downloads go; nothing where there is none."""
        downloaded = DOWNLOADS / name
        return self._in_archives(name) or (downloaded if is_there(downloaded) else None)

    def _file(self, name: str) -> Path:
        """Where a raw file is or will be: in the user's own folder if it is there, else among the downloads."""
        keys = self.parameters.sources.get(name)
        spec = from_dict(SourceSpec, {"file": name, **(keys.model_dump() if keys else {})})
        own = self._in_archives(name, *spec.accepts)
        self.files[name] = SourceFile(spec, own or DOWNLOADS / name, own is not None)
        return self.files[name].path

    # --- Encoders and features -------------------------------------------------------------------------------

    def _encoder(self, spec: EncoderSpec) -> Artefact:
        if spec.weights == "scenes":
            assert self.preset.pretraining  # checked when the parameters were resolved
            pretraining = self.preset.pretraining
            name = f"{spec.name}-{_key(spec, pretraining)}"
            return self._add("pretrained", name, PretrainedSpec(spec, pretraining), seed=pretraining.seed)
        name = f"{spec.name}-{_key(spec)}"
        raw = {}
        if spec.weights.startswith("file/"):
            raw["weights"] = self._file(spec.weights.removeprefix("file/"))
        return self._add("encoder", name, spec, raw=raw)

    def _features(self, corpus: Artefact, encoder: Artefact, spec: RunSpec) -> Artefact:
        store = self._store(corpus, spec.eval_store)
        name = f"{store.name}-{encoder.name}-{spec.eval_crop.kind}"
        read = {"store": store.folder, "encoder": encoder.folder}
        return self._add("features", name, FeaturesSpec(spec.encoder, spec.eval_crop), inputs=read)

    def _published_features(self, corpus: Artefact) -> Artefact:
        name = f"{corpus.name}-published"
        read = {"images": corpus.folder / "images.parquet"}
        return self._add("published", name, corpus.spec, inputs=read, raw=corpus.raw)

    def _tape(self, corpus: Artefact, encoder: Artefact, run: RunSpec) -> Artefact:
        store, epochs = self._store(corpus, run.train_store), run.schedule.epochs
        splits = self._trainable(self.parameters.corpora[run.dataset].dataset)
        name = f"{store.name}-{encoder.name}-{_key(run.crop)}-draw{run.draw}-{epochs}epochs"
        spec = TapeSpec(run.encoder, run.crop, run.draw, epochs, splits)
        captions = corpus.folder / "captions.parquet"
        read = {"store": store.folder, "encoder": encoder.folder, "captions": captions}
        return self._add("tape", name, spec, inputs=read)

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
        network: dict[str, Any] = {field: getattr(keys, field) for field in EncoderKeys.__dataclass_fields__}
        encoder = EncoderSpec(name=values["encoder"], **network)
        kind, _, restval = values["trainset"].partition("+")
        random_crops = kind == "RC"
        side = round(encoder.store_side * values["train_store_scale"]) if random_crops else encoder.store_side
        drawn = {"random": values["random_crop"], "flip": values["flip"]} if random_crops else {}
        fixed = {"corners": values["corners"]} if kind == "10C" else {}
        splits = ("train", "restval") if restval else ("train",)
        # The released code counts the words of all splits of raw data, and those of train and val of features.
        there = self.parameters.splits(self.parameters.corpora[values["dataset"]].dataset)
        every_split = ("train", "val") if published else there
        counted = every_split if values["vocabulary"] == "all_splits" else splits
        finetuned = values["finetune_from"] is not None
        corpus = self.parameters.corpora[values["dataset"]]
        # A reader of pictures that no paper used decides for them.
        reader = describe("reader", self.parameters.readers[corpus.dataset].name)
        orientation = reader.constants.get("EXIF_ORIENTATION", values["exif_orientation"])
        # Published features go into the model as they are.
        values["normalise_features"] = values["normalise_features"] and not published
        return RunSpec(
            id=run,
            system=values["system"],
            dataset=values["dataset"],
            trainset=kind,
            restval=bool(restval),
            encoder=encoder,
            finetune_from=values["finetune_from"],
            train_store=StoreSpec(values["resize"], side, orientation),
            eval_store=StoreSpec(values["resize"], encoder.store_side, orientation),
            crop=CropSpec(kind, encoder.input_size, **drawn, **fixed),
            vocabulary=VocabularySpec(counted, values["vocabulary_threshold"]),
            validation_images=corpus.published_validation_images if published else corpus.validation_images,
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
