"""Made-up embeddings of COCO's whole test set under all three truths: time, memory, and the published columns.

    pytest -m rehearsal tests/rehearsal/test_size_of_truths.py -n 0 -s

5,000 × 25,000 embeddings of 1,024 numbers, with COCO's ids. Needs the files of Crisscrossed Captions beside the checkout and the package
`eccv-caption`; two minutes on two cores, which nothing else uses.
"""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from flickr8k import SHARED

from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.truths import cxc, eccv

FILES = {role: SHARED / "cxc" / f"{file}.gz" for role, file in cxc.FILES.items()}
pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        not FILES["sits"].is_file() or not eccv.installed(), reason="files of the truths are not here"
    ),
]
PARTS = """
import json, resource, sys, time
from pathlib import Path
from vsepp.evaluation import judged, protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.report.judged import as_text
from vsepp.evaluation.truths import cxc, eccv

found, start = {}, time.perf_counter()
tested = Embeddings.load(Path(sys.argv[1]))
protocols.evaluate(tested, "5K")
truths = cxc.read({role: Path(path) for role, path in json.loads(sys.argv[2]).items()}), eccv.read(eccv.installed())
for truth in truths:
    vars(truth).update(t2t=None, i2i=None, ratings={})  # both cross-modal tasks alone
    as_text(judged.judge(tested, truth))
print(json.dumps({"seconds": time.perf_counter() - start, "kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory):
    """Captions near their image, in an order of their own; half a minute of numbers."""
    truth, rng = cxc.read(FILES), np.random.default_rng(0)
    images = rng.standard_normal((5000, 1024), dtype=np.float32)
    captions = images[truth.caption_to_image] + 12 * rng.standard_normal((25000, 1024), dtype=np.float32)
    rows, columns = rng.permutation(5000), rng.permutation(25000)
    owner = np.argsort(rows)[truth.caption_to_image[columns]]
    path = tmp_path_factory.mktemp("coco") / "coco.npz"
    ids = {
        "image_ids": np.asarray(truth.image_ids)[rows],
        "caption_ids": np.asarray(truth.caption_ids)[columns],
    }
    Embeddings(images[rows], captions[columns], owner, **ids).save(path)
    return path


def test_three_truths_take_a_minute_and_three_gigabytes(embeddings):
    files = json.dumps({role: str(path) for role, path in FILES.items()})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PARTS), str(embeddings), files],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    print(f"\nown, cxc and eccv, cross-modal: {found['seconds']:.0f} s, {found['kb'] / 1e6:.2f} GB")
    assert found["seconds"] < 60
    assert found["kb"] < 3e6


def test_the_command_writes_ranks_of_every_task_whatever_the_order_of_the_file(embeddings, tmp_path):
    """With both other tasks and the three correlations."""
    command = [
        sys.executable,
        "-m",
        "vsepp.apps.cli",
        "evaluate",
        str(embeddings),
        "--output",
        str(tmp_path / "out"),
    ]
    command += [
        "--truth",
        "own",
        "--truth",
        "cxc",
        "--truth",
        "eccv",
        "--config",
        f"archives={SHARED / 'cxc'}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    print(done.stdout)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert {"i2t", "t2i", "t2t", "i2i", "sts", "sis", "sits"} <= metrics["cxc"].keys()
    ranks = np.load(tmp_path / "out" / "ranks.npz")
    assert {name: len(ranks[name]) for name in ("cxc_i2t", "cxc_t2t", "cxc_i2i", "eccv_i2t", "eccv_t2i")} == {
        "cxc_i2t": 35585, "cxc_t2t": 101166, "cxc_i2i": 40492, "eccv_i2t": 22550, "eccv_t2i": 11279,
    }  # fmt: skip
    # The spread of the drawings depends on the ratings alone: as published, .4, .9 and 1.5, where scores go with them.
    assert metrics["cxc"]["sts"]["sd"] < metrics["cxc"]["sits"]["sd"] < 2
