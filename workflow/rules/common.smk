# The plan that all rules look up, and the only functions of the workflow.

import os
from pathlib import Path

from snakemake.exceptions import WorkflowError

from vsepp.cli.common import gpu_count
from vsepp.cli.reports import report_spec
from vsepp.config import make_plan
from vsepp.errors import VseppError
from vsepp.provenance import code
from vsepp.spec import to_json

# Relative, so that a project that was moved has nothing to do again.
PROJECT = Path(os.path.relpath(workflow.basedir))

try:
    PLAN = make_plan(PROJECT / "params", config)
except VseppError as error:
    raise WorkflowError(str(error)) from None

RESULTS = f"results/{PLAN.preset}"
VARIANT = f"{RESULTS}/{PLAN.variant}"
REPORTS = f"reports/{PLAN.preset}"
REPORT = f"{REPORTS}/{PLAN.variant}"
# reports/<preset>/index.html opens the default variant; another one leaves it alone.
ENTRY = [f"{REPORTS}/index.html"] if PLAN.variant == "paper" else []
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
GPUS = gpu_count()

# No more jobs at once than there are GPUs, unless the command line says otherwise.
if GPUS:
    workflow.global_resources.setdefault("gpu", GPUS)


def any_of(names):
    """A wildcard's constraint: one of the plan's names, or nothing at all."""
    return "|".join(sorted(names)) or "(?!)"


wildcard_constraints:
    corpus=any_of(PLAN.corpora),
    tokens=any_of(PLAN.tokens),
    store=any_of(PLAN.stores),
    encoder=any_of(set(PLAN.encoders) - set(PLAN.pretrained)),
    features=any_of(PLAN.features),
    tape=any_of(PLAN.tapes),
    run=any_of(PLAN.runs),
    seed="|".join(map(str, PLAN.seeds)),


def temp_directory(path):
    """A folder that is deleted once its last reader is done."""
    return temp(directory(path))


def raw_files(wildcards):
    """What a corpus is read from: its archives, or the folder that the scene generator writes."""
    corpus = getattr(wildcards, "corpus", None) or PLAN.stores[wildcards.store].corpus
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


def corpus_of_store(wildcards):
    """Tables of the corpus whose images a store holds."""
    return corpus_tables(PLAN.stores[wildcards.store].corpus)


def encoder_weights(encoder):
    """Weights of an encoder."""
    return f"{RESULTS}/encoders/{encoder}/encoder.safetensors"


def local_weights(wildcards):
    """The user's own weights file, where the encoder's weights are one."""
    weights = PLAN.encoders[wildcards.encoder].weights
    return [weights] if Path(weights).suffix in (".pth", ".pt", ".safetensors") else []


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
    inputs = {**encode_inputs(wildcards), "encoder": encoder_weights(run.encoder)}
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
    """All that a trained run needs to encode a split, besides its own weights."""
    run = PLAN.runs[wildcards.run]
    inputs = {
        "corpus": corpus_tables(run.corpus),
        "tokens": f"{RESULTS}/tokens/{run.tokens}/tokens.npz",
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


def run_spec(wildcards):
    """A run's spec for one seed, as the JSON that its steps read."""
    return to_json(PLAN.runs[wildcards.run].specs[int(wildcards.seed)])


def run_metrics(run):
    """Metrics of a run, a file for each seed; nothing for a run that is not part of this plan."""
    if run not in PLAN.runs:
        return []
    return [f"{VARIANT}/metrics/{run}/seed-{seed}/metrics.json" for seed in PLAN.seeds]


def run_histories(run):
    """Training curves of a run, a file for each seed."""
    if run not in PLAN.runs:
        return []
    return [f"{VARIANT}/runs/{run}/seed-{seed}/history.csv" for seed in PLAN.seeds]


def announce():
    """Print where the tables are and their headline numbers, once they are there."""
    headline = Path(REPORT) / "headline.txt"
    if headline.is_file():
        print(headline.read_text(encoding="utf-8"))
