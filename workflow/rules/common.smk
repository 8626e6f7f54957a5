# The plan that all rules look up, and the only functions of the workflow.

import os
import re
import time
from pathlib import Path
from shlex import quote

from snakemake.exceptions import WorkflowError

from vsepp.cli.common import gpu_count
from vsepp.cli.reports import model_metrics, report_spec, run_histories
from vsepp.config import make_plan
from vsepp.config.plan import DOWNLOADS
from vsepp.errors import VseppError
from vsepp.provenance import code
from vsepp.spec import to_json

# Relative, so that a project that was moved has nothing to do again.
PROJECT = Path(os.path.relpath(workflow.basedir))

try:
    PLAN = make_plan(PROJECT / "params", config)
except VseppError as error:
    raise WorkflowError(str(error)) from None

RESULTS = str(PLAN.results)
VARIANT = str(PLAN.variant_results)
REPORT = str(PLAN.report)
LOGS = f"{RESULTS}/logs"
BENCHMARKS = f"{RESULTS}/benchmarks"
TEMPLATES = PROJECT / "reports" / "templates"
TABLES = [
    name
    for name in PLAN.parameters.preset.tables
    if name in PLAN.parameters.tables.tables
]
FIGURES = [
    name
    for name in PLAN.parameters.preset.tables
    if name in PLAN.parameters.tables.figures
]
MEMORY = PLAN.parameters.preset.resources.memory_mb
THREADS = PLAN.parameters.preset.resources.threads
GPUS = gpu_count()
STARTED = time.time()

# `gpu` is whole GPUs, which a cluster's scheduler gives to a job. On this machine GPUs are counted in parts: a job
# that shares a GPU takes one, any other all of it. No more at once than there are, unless the command line says so.
PARTS = PLAN.parameters.preset.resources.runs_per_gpu
if GPUS:
    workflow.global_resources.setdefault("gpu_part", GPUS * PARTS)


def store_threads(wildcards):
    """All cores of this machine; on a cluster, where Snakemake is told of none, as many as any other job."""
    return workflow.resource_settings.cores or PLAN.parameters.preset.resources.threads


def any_of(names):
    """A wildcard's constraint: one of the plan's names, or nothing at all."""
    return "|".join(sorted(names)) or "(?!)"


wildcard_constraints:
    corpus=any_of(PLAN.corpora),
    tokens=any_of(name for name, job in PLAN.tokens.items() if not job.released),
    store=any_of(PLAN.stores),
    download=any_of(map(re.escape, PLAN.downloads)),
    encoder=any_of(set(PLAN.encoders) - set(PLAN.pretrained)),
    features=any_of(PLAN.features),
    published=any_of(PLAN.precomputed),
    tape=any_of(PLAN.tapes),
    run=any_of(PLAN.runs),
    released=any_of(PLAN.released),
    model=any_of(PLAN.models),
    seed="|".join(map(str, PLAN.seeds)),


def temp_directory(path):
    """A folder that is deleted once its last reader is done."""
    return temp(directory(path))


def corpus_name(wildcards):
    """The corpus that a job of preparation is about."""
    names = wildcards.keys()
    if "store" in names:
        return PLAN.stores[wildcards.store].corpus
    if "published" in names:
        return PLAN.precomputed[wildcards.published]
    return wildcards.corpus


def raw_files(wildcards):
    """What a corpus is read from: its archives, or the folder that the scene generator writes."""
    corpus = corpus_name(wildcards)
    files = PLAN.corpora[corpus].files
    if PLAN.scenes_folder and all(
        Path(file).is_relative_to(PLAN.scenes_folder) for file in files.values()
    ):
        return sorted(
            {
                str(Path(*Path(file).parts[: len(PLAN.scenes_folder.parts) + 1]))
                for file in files.values()
            }
        )
    return sorted(set(files.values()))


def corpus_tables(corpus):
    """The two tables of a corpus."""
    return [
        f"{RESULTS}/corpora/{corpus}/{table}.parquet"
        for table in ("images", "captions")
    ]


def tables_of_corpus(wildcards):
    """Tables of the corpus that a job of preparation is about."""
    return corpus_tables(corpus_name(wildcards))


def token_inputs(wildcards):
    """Captions, and the vocabulary where it is not counted in them but came with a released checkpoint."""
    job = token_job(wildcards)
    inputs = {"corpus": corpus_tables(job.corpus)}
    if job.released:
        inputs["vocabulary"] = (
            f"{VARIANT}/runs/{job.released}/seed-{PLAN.seeds[0]}/vocabulary.json"
        )
    return inputs


def token_job(wildcards):
    """Whose captions become word ids, and with which vocabulary."""
    if "released" in wildcards.keys():
        return PLAN.tokens[PLAN.models[wildcards.released].tokens]
    return PLAN.tokens[wildcards.tokens]


def encoder_weights(encoder):
    """Weights of an encoder."""
    return f"{RESULTS}/encoders/{encoder}/encoder.safetensors"


def local_weights(wildcards):
    """The file of an encoder's weights, where they come from one."""
    file = PLAN.encoder_files.get(wildcards.encoder)
    return [str(file)] if file else []


def feature_inputs(wildcards):
    """Store and encoder of a feature cache."""
    job = PLAN.features[wildcards.features]
    return {
        "store": f"{RESULTS}/stores/{job.store}/images.npy",
        "encoder": encoder_weights(job.encoder),
    }


def tape_inputs(wildcards):
    """Tables, store and encoder of a tape of random-crop features."""
    job = PLAN.tapes[wildcards.tape]
    return {
        "corpus": corpus_tables(job.corpus),
        "store": f"{RESULTS}/stores/{job.store}/images.npy",
        "encoder": encoder_weights(job.encoder),
    }


def run_inputs(wildcards):
    """All that a run reads while it trains, and its encoder, whose digest its manifest holds."""
    run = PLAN.runs[wildcards.run]
    inputs = data_inputs(run)
    if run.encoder:
        inputs["encoder"] = encoder_weights(run.encoder)
    if run.tape:
        inputs["tape"] = f"{RESULTS}/tapes/{run.tape}"
    if run.train_store and not run.tape:
        inputs["train_store"] = f"{RESULTS}/stores/{run.train_store}/images.npy"
    if run.spec.finetune_from:
        inputs["init_from"] = (
            f"{VARIANT}/runs/{run.spec.finetune_from}/seed-{wildcards.seed}/model.safetensors"
        )
    return inputs


def encode_inputs(wildcards):
    """All that a trained model needs to encode a split, besides its own weights."""
    return data_inputs(PLAN.models[wildcards.model])


def data_inputs(run):
    """Captions, and images or their features under the test crop."""
    inputs = {
        "corpus": corpus_tables(run.corpus),
        "tokens": f"{PLAN.tokens[run.tokens].folder}/tokens.npz",
    }
    if run.eval_features:
        inputs["features"] = f"{RESULTS}/features/{run.eval_features}/features.npy"
    else:
        inputs["eval_store"] = f"{RESULTS}/stores/{run.eval_store}/images.npy"
        inputs["encoder"] = encoder_weights(run.encoder)
    return inputs


def folders(wildcards, input):
    """Command-line options that hand a job the folders of its inputs: `--tokens results/…/tokens/…`."""
    options = []
    for name, files in input.items():
        path = Path(files if isinstance(files, str) else files[0])
        options.append(
            f"--{name.replace('_', '-')} {path if not path.suffix else path.parent}"
        )
    return " ".join(options)


def gpu_share(wildcards):
    """Jobs like this one that share a GPU: those of models that read features, in which no encoder runs."""
    model = PLAN.models[wildcards.get("run") or wildcards.model]
    return PARTS if model.tape or model.features else 1


def gpu_parts(wildcards):
    """Parts of a GPU that a training or an encoding takes."""
    return PARTS // gpu_share(wildcards) if GPUS else 0


def model_threads(wildcards):
    """Cores of a training or an encoding; those that share a GPU share the cores of one job, too."""
    return max(1, THREADS // gpu_share(wildcards)) if GPUS else THREADS


def tape_writers(wildcards):
    """Processes that write a tape: no more than it has epochs, and than there are GPUs where there are any."""
    epochs = PLAN.tapes[wildcards.tape].epochs
    return min(PLAN.parameters.preset.resources.tape_writers, epochs, GPUS or epochs)


def model_spec(wildcards):
    """Spec of a run or of a released checkpoint for one seed, as the JSON that its steps read."""
    names = wildcards.keys()
    name = next(
        wildcards[kind] for kind in ("run", "model", "released") if kind in names
    )
    return to_json(PLAN.models[name].specs[int(wildcards.seed)])


def ask_for_files():
    """Say at once, and not in the first hour, which files nobody but the user can get."""
    for file in PLAN.downloads.values():
        if not file.spec.mirrors and not file.path.exists():
            logger.warning(f"{file.spec.file} is not there. {file.spec.instructions}")


def announce():
    """Print where the tables are and their headline numbers, once they are there."""
    headline = Path(REPORT) / "headline.txt"
    # Not that of an earlier report, after models were trained and nothing more was asked for.
    if headline.is_file() and headline.stat().st_mtime >= STARTED:
        print(headline.read_text(encoding="utf-8"))
