"""Score a trained run, or anyone's embeddings."""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.apps.cli.common import AFTER, a_path, add_machine, add_step, option
from vsepp.apps.cli.show import add_plan_options, plan_of
from vsepp.base import components
from vsepp.base.components import module_name
from vsepp.base.errors import VseppError
from vsepp.base.files import is_there, output_folder
from vsepp.base.run_spec import EvaluationSpec
from vsepp.pipeline.code import code_digest
from vsepp.pipeline.making import make, take_machine
from vsepp.pipeline.step import Artefact, Facts, Input, Inputs, Job
from vsepp.pipeline.steps import evaluation, released

if TYPE_CHECKING:
    from vsepp.evaluation.evaluate import Evaluation
    from vsepp.evaluation.test_set import TestSet

log = logging.getLogger("vsepp")
_ROLES = {
    "run": "folder of a trained run, to score another corpus or split; an error names what else it needs, such as --features FOLDER",
    "corpus": "folder of the corpus",
    "features": argparse.SUPPRESS,
    "eval_store": argparse.SUPPRESS,
    "encoder": argparse.SUPPRESS,
    "caption_states": argparse.SUPPRESS,
}
"""What evaluating a trained run reads → its help; a file of embeddings needs none of it."""


def add_steps(steps: Any) -> None:
    """Add `evaluate`."""
    what = "compute recalls and ranks of anyone's embeddings or scores, or of a trained run (--run)"
    example = f"vsepp evaluate results/mini/paper/runs/coco-vsepp-rc/seed-0/embeddings.npz{AFTER}"
    parser = add_step(steps, "evaluate", evaluate, what, example)
    parser.add_argument(
        "file",
        nargs="?",
        type=a_path,
        metavar="FILE",
        help=".npz with image_embeddings, caption_embeddings, caption_to_image, or with scores, or with lists of the best; "
        "or else --run and --corpus",
    )
    parser.add_argument(
        "--protocol",
        nargs="+",
        metavar="NAME",
        help="one or more of 1K (first fold), 5x1K (mean over five folds), 5K (all images, default)",
    )
    parser.add_argument(
        "--truth",
        action="append",
        metavar="NAME",
        help="what is correct: own (own captions of all images), cxc or eccv (of COCO's test set, by its ids; their files are fetched "
        "once, or taken from --config archives=FOLDER); may be repeated",
    )
    parser.add_argument(
        "--fold-size",
        type=int,
        default=1000,
        metavar="N",
        help="images per fold of 1K and 5x1K; 1000 by default",
    )
    parser.add_argument(
        "--output",
        type=a_path,
        metavar="FOLDER",
        help="folder for embeddings.npz, metrics.json and ranks.npz; without it recalls are only printed",
    )
    run = parser.add_argument_group("a trained run, in the place of FILE")
    for role, description in _ROLES.items():
        run.add_argument(option(role), type=a_path, metavar="FOLDER", help=description)
    run.add_argument("--split", metavar="NAME", help="train, restval, val or test (default)")
    add_machine(run)
    add_plan_options(parser, hidden=True)


def evaluate(options: argparse.Namespace) -> None:
    """Embed a split and score it, or score anyone's embeddings; print, and publish where asked to."""
    own = ["5K"] if options.truth is None or "own" in options.truth else []
    options.protocol = options.protocol or own
    if (options.file is None) == (options.run is None):
        raise VseppError("evaluate: expected either a file of embeddings, or --run with its inputs")
    if options.file is None:
        _embed_and_score(options)
        return
    if ignored := [option(name) for name in ("split", *_ROLES) if getattr(options, name) is not None]:
        raise VseppError(
            f"evaluate: {', '.join(ignored)}: only for a trained run (--run); embeddings are scored as they are"
        )
    _score(options)


def _score(options: argparse.Namespace) -> None:
    """Score a file of embeddings or scores."""
    from vsepp.base.manifest import MANIFEST, read_manifest, require_intact
    from vsepp.evaluation.evaluate import evaluate
    from vsepp.evaluation.test_set import TestSet
    from vsepp.evaluation.truth import own_captions

    if options.output is not None:
        output_folder(options.output)
    folder, of_corpus = options.file.parent, False
    if (folder / MANIFEST).is_file() and options.file.name in read_manifest(folder)["outputs"]:
        require_intact(folder, options.file.name)
        of_corpus = True
    tested = TestSet.read(options.file, of_corpus=of_corpus)
    truths = [own_captions(tested.caption_to_image, name, options.fold_size) for name in options.protocol]
    truths += [components.load("truth", name).read(files) for name, files in _truths(options).items()]
    evaluations = evaluate(tested, truths)
    if options.output is not None:
        _publish(options, tested, evaluations)
    print(*evaluations, sep="\n\n")


def _publish(options: argparse.Namespace, tested: TestSet, evaluations: Sequence[Evaluation]) -> None:
    """Write what was scored, with its manifest."""
    from vsepp.base.manifest import recorded
    from vsepp.base.publish import published
    from vsepp.evaluation.evaluate import save

    names = [evaluation.protocol for evaluation in evaluations]
    spec = {"protocols": names, "fold_size": options.fold_size}
    inputs = {"embeddings": options.file}
    modules = ["vsepp.evaluation.evaluate"]
    if tested.scores.words in components.known("similarity"):
        modules.append(module_name("similarity", tested.scores.words))
    with (
        published(options.output) as folder,
        recorded(folder, "evaluation", spec=spec, inputs=inputs, code=code_digest(*modules)) as facts,
    ):
        save(evaluations, folder)
        facts["protocols"] = names


def _truths(options: argparse.Namespace) -> dict[str, dict[str, Path]]:
    """Truth → role → file, for the truths that were asked for besides own captions."""
    truths: dict[str, dict[str, Path]] = {}
    for name in options.truth or ():
        if name != "own":
            truth = components.load("truth", name)
            installed = dict(truth.installed())
            truths[name] = installed or {role: _fetched(options, file) for role, file in truth.FILES.items()}
    return truths


def _fetched(options: argparse.Namespace, name: str) -> Path:
    """Path of a raw file, which is fetched if it is not here."""
    from vsepp.data import download
    from vsepp.pipeline.plan import raw_file

    plan = plan_of(options)
    source = raw_file(plan.parameters, name)
    if not is_there(source.path):
        log.info("fetching %s", name)
        download.fetch(source.spec, source.path, plan.lock)
    return source.path


def _embed(spec: EvaluationSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Embed a split with a trained run, and compute recalls and ranks as a workflow's evaluation does."""
    from vsepp.evaluation.encode import encode_split, open_run
    from vsepp.evaluation.evaluate_run import evaluate_run
    from vsepp.evaluation.rerank import Reranker
    from vsepp.pipeline.fitting import require_fitting

    require_fitting(spec.run, inputs["run"], inputs)
    placing, facts = take_machine(job, "evaluation")
    model, *_ = opened = open_run(spec.run, spec.split, inputs, placing.device)
    tested = encode_split(*opened, device=placing.device)
    rerank = None if model.matcher is None else Reranker.from_split(*opened, device=placing.device).best
    print(*evaluate_run(spec, inputs, out, rerank, tested), sep="\n\n")
    return facts


_STEP = replace(
    evaluation.STEP,
    run=_embed,
    modules=lambda spec: ["vsepp.evaluation.evaluate_run", "vsepp.evaluation.rerank"],
    components=lambda spec: [*released.components(spec.run), *(("truth", truth) for truth in spec.truths)],
)
"""The step of evaluations, which embeds the split first: on a corpus and a split that no plan has."""


def _embed_and_score(options: argparse.Namespace) -> None:
    """Embed a split with a trained run, rank and score it."""
    from vsepp.base.publish import spec_of

    if options.corpus is None:
        raise VseppError("evaluate: a run needs --corpus, the folder of its tables")
    run = spec_of(options.run)
    truths = _truths(options)
    read = {role: Input(path) for role in _ROLES if (path := getattr(options, role)) is not None}
    for name, files in truths.items():
        read |= {f"{name}_{role}": Input(path, raw=path.name) for role, path in files.items()}
    spec = EvaluationSpec(run, (*options.protocol, *truths), options.fold_size, options.split or "test")
    with tempfile.TemporaryDirectory() as nowhere:
        output = options.output or Path(nowhere)
        make(
            Artefact(_STEP, run.seeded_id, output, spec, read), device=options.device, threads=options.threads
        )
    if options.output is None:
        log.info("nothing was written; --output FOLDER keeps embeddings, ranks and recalls")
