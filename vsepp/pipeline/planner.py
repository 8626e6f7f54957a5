"""From resolved parameters to the table of artefacts: names, specs and what reads what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from vsepp.base import components
from vsepp.base.components import checked, describe, resolved
from vsepp.base.declared import PIECES
from vsepp.base.digests import short_digest
from vsepp.base.errors import PHASES, VseppError
from vsepp.base.run_spec import EvaluationSpec, RunSpec
from vsepp.base.spec import (
    CaptionStatesSpec,
    CorpusSpec,
    EncoderSpec,
    EncoderWeightsSpec,
    FeaturesSpec,
    PicturesSpec,
    StoreSpec,
    TapeSpec,
    VectorsSpec,
    VocabularySpec,
    from_dict,
    part_of,
    to_dict,
)
from vsepp.models.text.inputs import MINILM, frozen_part, weights_file
from vsepp.pipeline.layers import load
from vsepp.pipeline.papers import Paper
from vsepp.pipeline.parameters import Parameters
from vsepp.pipeline.plan import Plan, PlannedModel, present_file, raw_file
from vsepp.pipeline.reports import report_spec
from vsepp.pipeline.settings import ReleasedKeys
from vsepp.pipeline.specs import evaluation_spec, published_features, run_spec, training_splits
from vsepp.pipeline.step import Artefact, Input
from vsepp.pipeline.steps import STEPS
from vsepp.pipeline.table import SourceFile
from vsepp.report.entries import FigureDataSpec
from vsepp.report.figures.base import FigureOfLosses
from vsepp.shipped.folders import encoder_weights


def make_plan(folder: Path, overrides: Mapping[str, Any] | None = None) -> Plan:
    """Read `params/` with overrides and lay out every artefact; see `vsepp.pipeline.layers.load`."""
    return _Planner(load(Path(folder), overrides)).plan()


class _Planner:
    """Collects artefacts while it walks over the runs."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.preset = parameters.preset
        self.files: dict[str, SourceFile] = {}
        self.models: dict[str, PlannedModel] = {}
        self.table: dict[tuple[str, str], Artefact] = {}
        self.by_folder: dict[Path, Artefact] = {}
        self.done: set[str] = set()

    def plan(self) -> Plan:
        # Shared artefacts follow from all runs of the papers, so that choosing some of them changes no artefact.
        for run in self.parameters.possible_runs:
            self._run(run)
        for paper in self.parameters.papers.values():
            for name, keys in paper.released.items():
                checkpoint = present_file(self.parameters, keys.checkpoint)
                vocabulary = present_file(self.parameters, keys.vocabulary)
                if keys.run in self.parameters.runs and checkpoint and vocabulary:
                    self._released(name, keys, checkpoint, vocabulary)
        for paper in self.parameters.papers.values():
            self._figures(paper)
        # An artefact is entered after all artefacts that it is made from.
        self.table = dict(sorted(self.table.items(), key=lambda item: PHASES.index(item[1].phase)))
        plan = Plan(
            preset=self.parameters.settings.preset,
            variant=self.parameters.variant,
            lock=self.parameters.folder / "sources.lock.yaml",
            resources=self.preset.resources,
            files=self.files,
            table=self.table,
            parameters=self.parameters,
            models=self.models,
        )
        for paper in self.parameters.papers.values():
            spec = report_spec(plan, paper)
            self._add("report", spec, label=paper.name, paths=spec.inputs)
        return plan

    def _add(
        self,
        kind: str,
        spec: Any,
        inputs: Mapping[str, Artefact] | None = None,
        *,
        label: str = "",
        raw: Mapping[str, Input] | None = None,
        paths: Mapping[str, Path] | None = None,
    ) -> Artefact:
        """The artefact with this spec and these inputs, entered where it is not in the table yet.

        Parameters
        ----------
        inputs
            Role → artefact.
        label
            Beginning of its name; by default that of its first input.
        raw
            Role → raw file or folder.
        paths
            Role → file of the project, or a path that belongs to another artefact.

        Raises
        ------
        VseppError
            If another artefact has its name, or its folder.
        """
        step, inputs = STEPS[kind], inputs or {}
        read = {role: Input(artefact.folder / step.reads[role]) for role, artefact in inputs.items()}
        read |= {role: Input(path) for role, path in (paths or {}).items()}
        read |= raw or {}
        name = step.name(spec, label or next((_label(artefact) for artefact in inputs.values()), ""))
        if "{variant}" not in step.folder:
            # Variants share it: its name says all that made it.
            names = {role: artefact.name for role, artefact in inputs.items()}
            name += f"-{short_digest(to_dict(spec), names)}"
        place = {"preset": self.parameters.settings.preset, "variant": self.parameters.variant}
        folder = Path(step.folder.format(**place, name=name))
        other = self.by_folder.setdefault(folder, Artefact(step, name, folder, spec, read))
        if (other.kind, other.name, other.spec, other.inputs) != (kind, name, spec, read):
            raise VseppError(
                f"{folder}: would be {other.kind} {other.name} and {kind} {name}, which differ in what makes them; rename "
                "one of the entries that they come from"
            )
        return self.table.setdefault((kind, name), other)

    def _inputs(self, spec: RunSpec, published: str | None) -> dict[str, Artefact]:
        """Role → artefact that encoding a split reads besides the model."""
        corpus = self._corpus(spec.dataset, published)
        pieces = spec.vocabulary.file
        raw = {"pieces": self._file(pieces)} if pieces else {}
        tokens = self._add("tokens", spec.vocabulary, {"captions": corpus}, raw=raw)
        inputs = {"corpus": corpus, "tokens": tokens}
        if frozen := frozen_part(spec.model.text):
            states = CaptionStatesSpec(frozen)
            inputs["caption_states"] = self._add(
                "caption_states", states, {"tokens": tokens}, raw=self._text_weights(spec)
            )
        if published is not None:
            inputs["features"] = self._add("published", corpus.spec, {"corpus": corpus}, raw=_raw(corpus))
        elif spec.live_encoder:
            inputs["eval_store"] = self._store(corpus, spec.eval_store)
            inputs["encoder"] = self._encoder(spec.encoder)
        else:
            store, encoder = self._store(corpus, spec.eval_store), self._encoder(spec.encoder)
            features = FeaturesSpec(spec.encoder, spec.eval_crop, spec.grid)
            inputs["features"] = self._add("features", features, {"store": store, "encoder": encoder})
        return inputs

    def _text_weights(self, spec: RunSpec) -> dict[str, Input]:
        """Role → the raw file that a run's text encoder starts from, if it does."""
        file = weights_file(spec.model.text)
        return {"text_weights": self._file(file)} if file else {}

    def _training_inputs(self, spec: RunSpec, encoding: Mapping[str, Artefact]) -> dict[str, Artefact]:
        """Role → artefact that a training reads, except the run that it starts from; `encoding`: what `_inputs` gives."""
        inputs = dict(encoding)
        if spec.image_features == "computed":
            # Few trainings read it, but every model of this encoder belongs to it.
            inputs["encoder"] = self._encoder(spec.encoder)
            if spec.reads == "tape":
                store = self._store(inputs["corpus"], spec.train_store)
                inputs["tape"] = self._tape(inputs["corpus"], store, inputs["encoder"], spec)
            elif spec.runs_encoder:
                inputs["train_store"] = self._store(inputs["corpus"], spec.train_store)
        return inputs

    def _loss_inputs(self, spec: RunSpec, read: Mapping[str, Artefact]) -> dict[str, Artefact]:
        """Role → artefact that a run's loss reads besides the inputs of its training."""
        loss = describe("loss", spec.loss.name)
        inputs: dict[str, Artefact] = {}
        for role in loss.constants.get("READS", ()):
            if role == "caption_vectors":
                encoder = getattr(checked("loss", spec.loss), "vectors", None)
                if encoder is None:
                    raise VseppError(
                        f"run {spec.id}: loss {spec.loss.name} reads {role!r}; it needs an option `vectors` that names their encoder"
                    )
                inputs[role] = self._vectors(read["corpus"], encoder)
            elif role not in read:
                raise VseppError(
                    f"run {spec.id}: loss {spec.loss.name} reads {role!r}; this run has {', '.join(sorted(read))}"
                )
        return inputs

    def _run(self, run: str) -> None:
        """Enter a run's trainings and evaluations, and all artefacts that they are made from."""
        if run in self.done:
            return
        self.done.add(run)
        keys = self.parameters.all_runs[run]
        if keys.ensemble:
            self._ensemble(run, *keys.ensemble)
            return
        published = published_features(self.parameters, keys)
        seeds = self.parameters.seeds(run)
        specs = {seed: run_spec(self.parameters, run, keys, seed) for seed in seeds or (0,)}
        first = next(iter(specs.values()))
        inputs = self._inputs(first, published)
        training = self._training_inputs(first, inputs)
        pictures = None if published else self._pictures(inputs["corpus"], first.eval_store).folder
        if run not in self.parameters.runs:
            return
        # Only for runs that are trained: for others a sentence encoder need not be installed.
        training |= self._loss_inputs(first, training)
        kept = {seed for seed, spec in specs.items() if self._is_kept(run, spec)}
        self.models[run] = PlannedModel(
            specs, self.parameters.protocols[run], frozenset(kept), pictures=pictures
        )
        for seed, spec in specs.items():
            if seed in kept and (run, seed) not in self.starts:
                continue
            read = dict(training)
            if spec.finetune_from:
                self._run(spec.finetune_from)
                read["init_from"] = self.table["run", self.models[spec.finetune_from].specs[seed].seeded_id]
            # A fine-tuned run starts from a run instead.
            trained = self._add("run", spec, read, raw={} if spec.finetune_from else self._text_weights(spec))
            if seed not in kept:
                self._evaluation(evaluation_spec(self.parameters, run, spec), trained, inputs)

    def _ensemble(self, run: str, *members: str) -> None:
        """Enter the evaluations of an ensemble of two runs."""
        for member in members:
            self._run(member)
        if run not in self.parameters.runs:
            return
        specs, second_specs = (self.models[member].specs for member in members)
        specs = {seed: specs[seed] for seed in self.parameters.seeds(run)}
        pictures = self.models[members[0]].pictures
        self.models[run] = PlannedModel(
            specs, self.parameters.protocols[run], pictures=pictures, ensemble=members
        )
        for seed, spec in specs.items():
            first, second = (self._trained(run, member, seed) for member in members)
            evaluated = replace(
                evaluation_spec(self.parameters, run, spec), ensemble=run, second=second_specs[seed]
            )
            read = {
                "corpus": self.by_folder[first.inputs["corpus"].path],
                "second": second,
                "second_corpus": self.by_folder[second.inputs["corpus"].path],
            }
            self._evaluation(evaluated, first, read)

    def _evaluation(self, spec: EvaluationSpec, run: Artefact, inputs: Mapping[str, Artefact]) -> None:
        """Enter an evaluation of a run, and the files of its truths; `inputs`: what it may read besides the run's embeddings."""
        raw: dict[str, Input] = {}
        for name in spec.truths:
            installed = components.load("truth", name).installed()
            files = describe("truth", name).constants["FILES"]
            raw |= {
                f"{name}_{role}": Input(installed[role], file) if installed else self._file(file)
                for role, file in files.items()
            }
        if not (spec.ensemble or spec.run.model.matcher):
            inputs = {"corpus": inputs["corpus"]} if spec.truths else {}
        self._add("evaluation", spec, {"run": run, **inputs}, raw=raw)

    def _trained(self, ensemble: str, member: str, seed: int) -> Artefact:
        """The training of a member of an ensemble."""
        try:
            return self.table["run", self.models[member].specs[seed].seeded_id]
        except KeyError:
            raise VseppError(
                f"run {ensemble}: of {member} a record is kept, not its embeddings; drop it (vsepp record --drop {member}), or "
                "leave the ensemble out"
            ) from None

    def _is_kept(self, run: str, spec: RunSpec) -> bool:
        return self.parameters.study.has(run, evaluation_spec(self.parameters, run, spec))

    @cached_property
    def starts(self) -> set[tuple[str, int]]:
        """Run and seed that a fine-tuning without a record starts from: it needs their weights, recorded or not."""
        starts = set()
        for run, keys in self.parameters.runs.items():
            if (start := keys.finetune_from) and not keys.ensemble:
                for seed in self.parameters.seeds(run):
                    if not self._is_kept(run, run_spec(self.parameters, run, keys, seed)):
                        starts.add((start, seed))
        return starts

    def _released(self, name: str, keys: ReleasedKeys, checkpoint: Path, vocabulary: Path) -> None:
        """Enter a checkpoint of the authors as a training of its run, under the fidelity of their code."""
        run = keys.run
        trained = self.parameters.as_code[run]
        published = published_features(self.parameters, trained)
        seed = self.parameters.settings.seeds[0]
        spec = run_spec(self.parameters, name, trained, seed)
        inputs = self._inputs(spec, published)
        pictures = None if published else self._pictures(inputs["corpus"], spec.eval_store).folder
        self.models[name] = PlannedModel(
            {seed: spec}, self.parameters.protocols[run], released=run, pictures=pictures
        )
        raw = {
            "checkpoint": Input(checkpoint, keys.checkpoint),
            "vocabulary": Input(vocabulary, keys.vocabulary),
        }
        words = VocabularySpec((), 1, file=keys.vocabulary)
        tokens = self._add(
            "tokens", words, {"captions": inputs["corpus"]}, raw={"vocabulary": raw["vocabulary"]}
        )
        inputs["tokens"] = tokens
        model = self._add("released", spec, inputs, raw=raw)
        self._evaluation(evaluation_spec(self.parameters, run, spec), model, inputs)

    def _figures(self, paper: Paper) -> None:
        """Enter the data that are computed for the figures of a paper's report."""
        for figure in paper.selected(self.preset.tables):
            keys = paper.tables.figures.get(figure)
            if isinstance(keys, FigureOfLosses):
                losses = tuple(resolved("loss", loss) for loss in keys.losses)
                computed = replace(keys, losses=losses, title="", caption="", width="column")
                self._add("figure_data", FigureDataSpec(computed), label=f"{paper.name}/{figure}")

    def _scenes(self) -> Artefact:
        return self._add("scenes", self.preset.scenes)

    def _corpus(self, role: str, published: str | None) -> Artefact:
        keys = self.parameters.corpora[role]
        name = published or keys.dataset
        entry = self.parameters.datasets[name]
        inputs = {}
        if entry.generator:
            inputs["scenes"] = self._scenes()
            layout = inputs["scenes"].folder / entry.generator
            raw = {part: Input(layout / file, file) for part, file in entry.files.items()}
        else:
            raw = {part: self._file(file) for part, file in entry.files.items()}
        spec = part_of(
            CorpusSpec,
            entry,
            name=name,
            reader=resolved("reader", entry.reader),
            expected_images=self.parameters.images(name),
            first_images=keys.first_images,
            leave_out=keys.leave_out,
        )
        return self._add("corpus", spec, inputs, label=role, raw=raw)

    def _vectors(self, corpus: Artefact, encoder: str) -> Artefact:
        if encoder == "minilm":
            tokens = self._add("tokens", VocabularySpec((), 1, kind=PIECES), {"captions": corpus})
            states = self._add("caption_states", CaptionStatesSpec(MINILM), {"tokens": tokens})
            spec, inputs = VectorsSpec("minilm"), {"tokens": tokens, "caption_states": states}
        else:
            spec = from_dict(
                VectorsSpec,
                {"encoder": encoder, "splits": training_splits(self.parameters, corpus.spec.name)},
            )
            inputs = {"captions": corpus}
        return self._add("vectors", spec, inputs, label=_label(corpus))

    def _store(self, corpus: Artefact, spec: StoreSpec) -> Artefact:
        scenes = {"scenes": self._scenes()} if "scenes" in corpus.inputs else {}
        return self._add("store", spec, {"corpus": corpus, **scenes}, raw=_raw(corpus))

    def _pictures(self, corpus: Artefact, store: StoreSpec) -> Artefact:
        shown = self.parameters.datasets[corpus.spec.name].photographs
        read = {"store": self._store(corpus, store), "corpus": corpus}
        return self._add("pictures", PicturesSpec(photographs=shown), read)

    def _file(self, name: str) -> Input:
        """A raw file, entered among the files of the plan."""
        self.files[name] = raw_file(self.parameters, name)
        return Input(self.files[name].path, name)

    def _encoder(self, spec: EncoderSpec) -> Artefact:
        raw = {}
        if spec.weights == "scenes":
            file = encoder_weights(spec.architecture)
            raw["weights"] = Input(Path(os.path.relpath(file)), file.name)
        elif spec.weights.startswith("file/"):
            raw["weights"] = self._file(spec.weights.removeprefix("file/"))
        return self._add("encoder", EncoderWeightsSpec(spec), raw=raw)

    def _tape(self, corpus: Artefact, store: Artefact, encoder: Artefact, run: RunSpec) -> Artefact:
        splits = training_splits(self.parameters, self.parameters.corpora[run.dataset].dataset)
        spec = TapeSpec(run.encoder, run.crop, run.draw, run.schedule.epochs, splits)
        return self._add("tape", spec, {"store": store, "encoder": encoder, "captions": corpus})


def _raw(artefact: Artefact) -> dict[str, Input]:
    """Role → raw file or folder that an artefact is made from."""
    return {role: read for role, read in artefact.inputs.items() if read.raw}


def _label(artefact: Artefact) -> str:
    """An artefact's name without its digest."""
    return artefact.name.rpartition("-")[0]
