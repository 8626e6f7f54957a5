"""Raw files → two tables: images with their splits, and captions with their images."""

from __future__ import annotations

from pathlib import Path

from vsepp.base.spec import CorpusSpec, with_files
from vsepp.pipeline.step import Artefacts, Facts, Inputs, Job, Role, Step, short_digest

SCENES = Role("folder of the generated scenes that the raw files lie in", optional=True)


def run(spec: CorpusSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Read splits and captions from the raw files."""
    from vsepp.data.corpora import read_corpus, require_test_images
    from vsepp.data.tables import write_tables

    images, captions = read_corpus(with_files(spec, job.raw))
    require_test_images(images, spec.name, job.test_images)
    write_tables(out, images, captions)
    return images.attrs["facts"]


def files(spec: CorpusSpec, raw: Inputs) -> Inputs:
    """The raw files that are no folders: folders of photographs are known by their store."""
    return {role: path for role, path in raw.items() if path.is_file()}


def name(spec: CorpusSpec, inputs: Artefacts, label: str) -> str:
    """The role that the data play, and a digest of its parameters."""
    scenes = inputs.get("scenes")
    return f"{label}-{short_digest(spec, short_digest(scenes.spec) if scenes else None)}"


STEP = Step(
    "corpus",
    CorpusSpec,
    run,
    phase="corpus",
    folder="results/{preset}/corpora/{name}",
    modules=("vsepp.data.corpora",),
    components=lambda spec: [("reader", spec.reader.name)],
    name=name,
    reads={"scenes": SCENES},
    known_raw=files,
    files=("images.parquet", "captions.parquet"),
    takes=("test_images",),
)
