"""Models read from their results, and records of finished trainings, kept where everybody can read them.

A record has manifests, metrics, histories and ranks, not weights. A study is a folder of four files, small enough to be committed:

| file | content |
|---|---|
| `runs.jsonl` | a line a model: `run`, `seed`, `metrics` by protocol, digests of its two manifests and of its ranks |
| `history.csv` | a line an epoch, below the model's `run` and `seed`; cells as its training wrote them |
| `manifests.jsonl` | the manifests; each of their ancestors stands once, under its digest |
| `ranks.npz` | `<run>/seed-<n>/<protocol>_<part>`: twice the rank of each query, integers; `captions/<digest>`: rows that models share |

A record stands for its model in reports: later code does not void it, other parameters do.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError, as_started, fixes, pull, snakemake
from vsepp.base.files import csv_text, read_json, reading, write_arrays, write_text
from vsepp.base.manifest import (
    MANIFEST,
    SEAL,
    checked_manifest,
    differences,
    is_intact,
    parent_of,
    read_manifest,
    require_input,
    require_intact,
)
from vsepp.base.run_spec import EvaluationSpec, seeded
from vsepp.base.spec import to_dict
from vsepp.report.entries import (
    HISTORY_FILE,
    MANIFESTS_FILE,
    METRICS_FILE,
    RANKS_FILE,
    RUNS_FILE,
    STUDY_FILES,
    TrainedSpec,
)
from vsepp.report.models import MadeBy, MeasuredModel, seed_in
from vsepp.report.pairing import require_each_seed_once

if TYPE_CHECKING:
    import numpy as np

_GET_IT = "get it from version control"
_REPAIR = f"{_GET_IT}, or drop the record: {as_started()}vsepp record --drop "
_MADE = {
    "run": ("the model behind it was trained", "model.safetensors"),
    "evaluation": ("it was measured", METRICS_FILE),
}
_SHARED = ("caption_rows", "_images", "_starts")
"""Name endings of the arrays of ranks that all models of one test set share."""

RunAndSeed = tuple[str, int]
"""Run and seed."""


def read_models(
    specs: Iterable[TrainedSpec], config: str = "", other_code: Mapping[str, MadeBy] = MappingProxyType({})
) -> dict[str, list[MeasuredModel]]:
    """Read models from their results or records; models of one run become the seeds of one entry.

    Parameters
    ----------
    specs
        What the plan says of them.
    config
        The option `--config` that chose the plan, for the commands that mend.
    other_code
        Folder of a training or an evaluation that other code than the present one made → who made it.

    Raises
    ------
    VseppError
        Where a manifest or a file was changed, a seed is named twice, or present parameters would make another model or would
        measure it otherwise, and the command that mends it.
    """
    models: dict[str, list[MeasuredModel]] = {}
    for spec in specs:
        if spec.study:
            model = study_of(Path(spec.study)).read(spec.model, spec.seed)
        else:
            model = read_results(Path(spec.evaluation), Path(spec.run), trained=spec.trained)
        _require_present(spec, model.evaluated, config)
        makers = dict.fromkeys(
            other_code[folder] for folder in (spec.run, spec.evaluation) if folder in other_code
        )
        model = replace(
            model, name=spec.model, seed=spec.seed, pictures=spec.pictures, other_code=tuple(makers)
        )
        models.setdefault(spec.model, []).append(model)
    for seeds in models.values():
        require_each_seed_once(seeds)
    return models


def read_results(evaluation: Path, run: Path | None = None, *, trained: bool) -> MeasuredModel:
    """Read a model from its results.

    Parameters
    ----------
    evaluation, run
        Folder of the evaluation, and of the training, `None` where it does not matter.
    trained
        Whether it was trained here and has a history.

    Raises
    ------
    VseppError
        If a file was changed, or the evaluation is of another training.
    """
    from vsepp.data.arrays import read_npz

    evaluated = require_intact(evaluation, METRICS_FILE, RANKS_FILE)
    manifest, history = None, ""
    if run and (run / MANIFEST).is_file():
        require_input(evaluation, "run", run)
        manifest = read_manifest(run)
    if run and trained:
        require_intact(run, HISTORY_FILE)
        history = (run / HISTORY_FILE).read_text(encoding="utf-8")
    made_of = evaluated["spec"].get("run", {})
    with reading(evaluation / MANIFEST, "the manifest of an evaluation; make it again"):
        name, seed = made_of.get("id", ""), made_of.get("init_seed", seed_in(evaluation))
    return MeasuredModel(
        name=name,
        seed=seed,
        where=str(evaluation),
        evaluated=evaluated,
        metrics=read_json(evaluation / METRICS_FILE, "the metrics of an evaluation"),
        arrays=read_npz(evaluation / RANKS_FILE, None, "ranks; delete the folder and make it again"),
        trained=manifest,
        history_csv=history,
        run=str(run or ""),
        evaluation=str(evaluation),
    )


def _require_present(spec: TrainedSpec, evaluated: Mapping[str, Any], config: str) -> None:
    """Refuse a model's weights or metrics that present parameters would make otherwise."""
    manifests = {"run": parent_of(evaluated, "run"), "evaluation": {**evaluated, **evaluated["git"]}}
    for name, (what_happened, file) in _MADE.items():
        for _, wanted, actual in differences(manifests[name], spec=spec.spec_digests.get(name)).spec:
            again = f"{getattr(spec, name)}/{file}"
            mend = snakemake(f"{spec.evaluation}/{METRICS_FILE}", config, again)
            raise VseppError(
                f"{spec.evaluation}: {what_happened} with other parameters than the present ones (expected digest "
                f"{wanted[:12]}, got {str(actual)[:12]}, commit {str(manifests[name].get('commit'))[:10]}), as a checkout of another "
                f"commit can leave it.{fixes(pull(), mend)}"
            )


def is_of(evaluated: Mapping[str, Any], spec: EvaluationSpec) -> bool:
    """Whether an evaluation, by its manifest, was made with these parameters; it may be under more protocols than they ask for."""
    differing = differences(evaluated, spec=to_dict(spec)).spec
    changed = {key: (wanted, actual) for key, wanted, actual in differing}
    wanted, actual = changed.pop("protocols", ([], []))
    return not changed and set(wanted or ()) <= set(actual or ())


class Study:
    """The records of a study, read when they are asked for.

    Parameters
    ----------
    folder
        Folder with the four files of a study, or with none of them: then there are no records.

    Raises
    ------
    VseppError
        If files are missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: dict[RunAndSeed, dict[str, Any]] = {}
        self._manifests: dict[str, dict[str, Any]] = {}
        if missing := [name for name in STUDY_FILES if not (folder / name).is_file()]:
            if len(missing) < len(STUDY_FILES):
                raise VseppError(f"{folder}: {', '.join(missing)} missing; {_GET_IT}")
            return
        self._lines = self._read_lines(RUNS_FILE, lambda line: (line["run"], line["seed"]))
        self._manifests = self._read_lines(MANIFESTS_FILE, lambda line: line["digest"])

    @property
    def models(self) -> list[RunAndSeed]:
        """Run and seed of each model, in the order of the files."""
        return list(self._lines)

    def has(self, run: str, spec: EvaluationSpec) -> bool:
        """Whether a model's record was made with these parameters."""
        line = self._lines.get((run, spec.run.init_seed))
        if line is None:
            return False
        with self._reading(run, spec.run.init_seed):
            return is_of(self._manifest(line, "evaluated"), spec)

    def read(self, run: str, seed: int) -> MeasuredModel:
        """A model's record.

        Raises
        ------
        VseppError
            If there is none, or it is not as it was kept.
        """
        where = f"{self.folder}, {seeded(run, seed)}"
        if (run, seed) not in self._lines:
            raise VseppError(f"{where}: no such record; the study has {len(self._lines)} models")
        line = self._lines[run, seed]
        with self._reading(run, seed):
            evaluated, trained = self._manifest(line, "evaluated"), self._manifest(line, "trained")
            if not (is_intact(evaluated) and is_intact(trained)):
                raise VseppError(f"{MANIFESTS_FILE} is not as it was kept; {_REPAIR}{run}")
            for manifest in (evaluated, trained):
                checked_manifest(manifest, MANIFESTS_FILE)
            history = self._histories.get((run, str(seed)), "")
            arrays = self._arrays(line)
        metrics_text = json.dumps(line["metrics"], indent=1) + "\n"  # as an evaluation writes it
        as_kept = {
            RUNS_FILE: _text_digest(metrics_text) == evaluated["outputs"][METRICS_FILE],
            HISTORY_FILE: _text_digest(history) == trained["outputs"][HISTORY_FILE],
            RANKS_FILE: ranks_digest(arrays) == line["ranks"],
        }
        if changed := [file for file, same in as_kept.items() if not same]:
            raise VseppError(f"{where}: {changed[0]} is not as it was kept; {_REPAIR}{run}")
        metrics, study = line["metrics"], str(self.folder)
        return MeasuredModel(run, seed, where, evaluated, metrics, arrays, trained, history, study=study)

    def read_all(self) -> dict[RunAndSeed, MeasuredModel]:
        """Every model's record; errors as in `read`."""
        return {name: self.read(*name) for name in self.models}

    def _reading(self, run: str, seed: int) -> AbstractContextManager[None]:
        """Guard the reading of one record."""
        return reading(f"{self.folder}, {seeded(run, seed)}", f"a record as it was kept; {_REPAIR}{run}")

    def _read_lines(self, name: str, key: Callable[[dict[str, Any]], Any]) -> dict[Any, dict[str, Any]]:
        """Objects of a file that has one object a line, by their key."""
        path = self.folder / name
        with reading(path, f"records, an object a line; {_GET_IT}"):
            lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            return {key(line): line for line in lines}

    def _manifest(self, line: Mapping[str, Any], key: str) -> dict[str, Any]:
        """A manifest with its ancestors, as its step wrote it."""
        short = self._manifests[line[key]]
        return {
            **short,
            "ancestors": _each(short["ancestors"], lambda digest: self._manifests[digest]["ancestor"]),
        }

    @cached_property
    def _histories(self) -> dict[tuple[str, str], str]:
        """Run and seed → `history.csv` of its training."""
        histories: dict[tuple[str, str], list[dict[str, str]]] = {}
        with (self.folder / HISTORY_FILE).open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                histories.setdefault((row.pop("run"), row.pop("seed")), []).append(row)
        # Only the columns that its training had: in other columns all its cells are empty.
        return {
            name: csv_text([column for column in rows[0] if any(row[column] for row in rows)], rows)
            for name, rows in histories.items()
        }

    def _arrays(self, line: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arrays of a model, as its evaluation wrote them."""
        archive = self._archive
        prefix = f"{seeded(line['run'], line['seed'])}/"
        own = {
            name.removeprefix(prefix): ranks / 2 for name, ranks in archive.items() if name.startswith(prefix)
        }
        shared = {name: archive[f"captions/{digest}"] for name, digest in line["captions"].items()}
        return own | {name: rows.astype("int64") for name, rows in shared.items()}

    @cached_property
    def _archive(self) -> dict[str, np.ndarray]:
        from vsepp.data.arrays import read_npz

        return read_npz(self.folder / RANKS_FILE, None, f"ranks of records; {_GET_IT}")


def study_of(folder: Path) -> Study:
    """The study in a folder, read once in a process as long as its files stay as they are."""
    files = [folder.absolute() / name for name in STUDY_FILES]
    return _study(folder, tuple((file, file.stat().st_mtime_ns) for file in files if file.is_file()))


@lru_cache(maxsize=4)
def _study(folder: Path, _files: tuple[tuple[Path, int], ...]) -> Study:
    return Study(folder)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ranks_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Digest of a model's ranks under all its protocols."""
    return value_digest({name: _array_digest(arrays[name]) for name in sorted(arrays)})


def _array_digest(array: np.ndarray) -> str:
    """Digest of an array's numbers, whatever type holds them."""
    return hashlib.sha256((array * 2).astype("<i8").tobytes()).hexdigest()


def write_study(folder: Path, models: Mapping[RunAndSeed, MeasuredModel]) -> int:
    """Write a study's files, and return their bytes; without models, remove them.

    Raises
    ------
    VseppError
        If the written files do not read as valid records.
    """
    if not models:
        for name in STUDY_FILES:
            (folder / name).unlink(missing_ok=True)
        return 0
    runs, rows, manifests = [], [], dict[str, Any]()
    arrays: dict[str, np.ndarray] = {}

    def keep(ancestor: Mapping[str, Any]) -> str:
        digest = value_digest(ancestor)[:12]
        manifests[digest] = {"digest": digest, "ancestor": ancestor}
        return digest

    for (run, seed), model in sorted(models.items()):
        assert model.trained
        shared: dict[str, str] = {}
        line = {"run": run, "seed": seed, "metrics": model.metrics, "captions": shared}
        for name, values in sorted(model.arrays.items()):
            if name.endswith(_SHARED):
                shared[name] = digest = _array_digest(values)[:12]
                arrays[f"captions/{digest}"] = smallest(values)
            else:
                arrays[f"{seeded(run, seed)}/{name}"] = smallest(values * 2)
        line["ranks"] = ranks_digest(model.arrays)
        for key, manifest in (("trained", model.trained), ("evaluated", model.evaluated)):
            line[key] = manifest[SEAL]
            manifests[manifest[SEAL]] = {**manifest, "ancestors": _each(manifest["ancestors"], keep)}
        runs.append(line)
        rows += [{"run": run, "seed": seed, **row} for row in model.epochs]
    folder.mkdir(parents=True, exist_ok=True)
    write_arrays(folder / RANKS_FILE, compressed=True, **arrays)
    write_text(folder / HISTORY_FILE, csv_text(list(dict.fromkeys(key for row in rows for key in row)), rows))
    write_text(folder / MANIFESTS_FILE, _lines(manifests.values()))
    write_text(folder / RUNS_FILE, _lines(runs))  # the last: it names what counts
    Study(folder).read_all()
    return sum((folder / name).stat().st_size for name in STUDY_FILES)


def _each(ancestors: Any, change: Callable[[Any], Any]) -> Any:
    """Change each ancestor of a manifest; in earlier manifests they have dotted roles."""
    if isinstance(ancestors, dict):
        return {role: change(ancestor) for role, ancestor in ancestors.items()}
    return [change(ancestor) for ancestor in ancestors]


def smallest(values: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as hold them all."""
    import numpy as np

    whole = values.astype(np.int64)
    assert np.array_equal(whole, values), "twice a rank is a whole number"
    ends = (int(whole.min(initial=0)), int(whole.max(initial=0)))
    return whole.astype(np.result_type(*map(np.min_scalar_type, ends)))


def _lines(values: Iterable[Any]) -> str:
    return "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values)
