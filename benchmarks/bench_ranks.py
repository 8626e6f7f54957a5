"""Ranking by counting: seconds, CPU seconds and peak memory at the size of COCO's whole test set.

    python benchmarks/bench_ranks.py            # dot, 5,000 images × 25,000 captions × 1,024
    python benchmarks/bench_ranks.py --order    # order similarity too, of 1,000 images and of the full size
    python benchmarks/bench_ranks.py --json PATH

Each case runs in a process of its own, so that its peak memory is its own: what the process held at most
while ranking, less what it held when the inputs were made. Beside it, one argsort a query as the released
code ranks, timed on a sample of queries and scaled to all of them.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from vsepp.evaluation.ranks import retrieval_ranks

CAPTIONS_PER_IMAGE = 5


@dataclass(frozen=True)
class Case:
    similarity: str
    images: int
    dims: int
    repetitions: int
    shuffled: bool
    sample: int


def make_inputs(case):
    """Unit vectors, captions near their image: a model that has learned something, without ties."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(case.images), CAPTIONS_PER_IMAGE)
    if case.shuffled:
        owner = rng.permutation(owner)
    images = rng.standard_normal((case.images, case.dims), dtype=np.float32)
    captions = rng.standard_normal((len(owner), case.dims), dtype=np.float32)
    captions *= 8
    for start in range(0, len(owner), 500):
        captions[start : start + 500] += images[owner[start : start + 500]]
    for side in (images, captions):
        side /= np.sqrt(np.vecdot(side, side))[:, None]
    return images, captions, owner


def argsort_reference(case, images, captions, owner):
    """One sort a query, on a sample: its ranks both ways and the seconds that all queries would take."""

    def score(queries, items, order):
        if not order:
            return items @ queries
        return -np.square(np.maximum(0, items - queries if order > 0 else queries - items)).sum(axis=1)

    order = case.similarity == "order"
    sampled_images = np.linspace(0, case.images - 1, min(case.sample, case.images)).astype(int)
    sampled_captions = np.linspace(0, len(owner) - 1, min(case.sample, len(owner))).astype(int)
    started = time.perf_counter()
    image_to_text = []
    for image in sampled_images:
        ranking = np.argsort(-score(images[image], captions, order))
        image_to_text.append(np.flatnonzero(owner[ranking] == image)[0])
    middle = time.perf_counter()
    text_to_image = []
    for caption in sampled_captions:
        ranking = np.argsort(-score(captions[caption], images, -order))
        text_to_image.append(np.flatnonzero(ranking == owner[caption])[0])
    ended = time.perf_counter()
    seconds = (middle - started) / len(sampled_images) * case.images
    seconds += (ended - middle) / len(sampled_captions) * len(owner)
    return seconds, (sampled_images, image_to_text), (sampled_captions, text_to_image)


def measure(case):
    images, captions, owner = make_inputs(case)
    before = peak_bytes()
    wall, cpu = [], []
    for _ in range(case.repetitions):
        started, started_cpu = time.perf_counter(), time.process_time()
        ranks = retrieval_ranks(images, captions, owner, case.similarity)
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
    beyond = peak_bytes() - before
    record = {
        "wall_seconds": spread(wall),
        "cpu_seconds": spread(cpu),
        "input_mebibytes": (images.nbytes + captions.nbytes + owner.nbytes) / 2**20,
        "peak_beyond_inputs_mebibytes": beyond / 2**20,
        "r1_caption_retrieval": 100 * float(np.mean(ranks.image_to_text < 1)),
        "r1_image_retrieval": 100 * float(np.mean(ranks.text_to_image < 1)),
    }
    if case.sample:
        seconds, (rows, by_image), (cols, by_caption) = argsort_reference(case, images, captions, owner)
        differing = np.sum(ranks.image_to_text[rows] != by_image) + np.sum(
            ranks.text_to_image[cols] != by_caption
        )
        record["argsort_reference_seconds"] = seconds
        record["sampled_queries"] = len(rows) + len(cols)
        record["sampled_queries_ranked_differently"] = int(differing)
    return {**asdict(case), "captions": len(owner), **record}


def peak_bytes():
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=5000, help="test images of the full size")
    parser.add_argument("--dims", type=int, default=1024, help="dimensions of the joint space")
    parser.add_argument(
        "--repetitions", type=int, default=5, help="runs of a case; order at full size takes 1"
    )
    parser.add_argument("--order", action="store_true", help="measure the order similarity too")
    parser.add_argument("--order-images", type=int, default=1000, help="images of the smaller order case")
    parser.add_argument("--order-small-only", action="store_true", help="leave the full order case out")
    parser.add_argument("--shuffled", action="store_true", help="captions in no order")
    parser.add_argument("--sample", type=int, default=100, help="queries a direction for the reference, or 0")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def main():
    args = parse_arguments()
    load = os.getloadavg()[0]
    cases = [Case("dot", args.images, args.dims, args.repetitions, args.shuffled, args.sample)]
    if args.order:
        few = max(1, args.sample // 5) if args.sample else 0
        cases.append(Case("order", args.order_images, args.dims, args.repetitions, args.shuffled, few))
        if not args.order_small_only:
            cases.append(Case("order", args.images, args.dims, 1, args.shuffled, few))
    records = []
    for case in cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            record = pool.apply(measure, (case,))
        records.append(record)
        wall, cpu = record["wall_seconds"], record["cpu_seconds"]
        print(
            f"{case.similarity}: {case.images} images × {record['captions']} captions × {case.dims}: median "
            f"{wall['median']:.2f} s (min {wall['min']:.2f}, max {wall['max']:.2f}, {wall['runs']} runs), "
            f"CPU {cpu['median']:.2f} s, {record['peak_beyond_inputs_mebibytes']:.0f} MiB beyond the inputs"
        )
        if case.sample:
            print(
                f"  one argsort a query: {record['argsort_reference_seconds']:.1f} s; other ranks for "
                f"{record['sampled_queries_ranked_differently']} of {record['sampled_queries']} queries"
            )
    if args.json:
        machine = {
            "load_before": load,
            "cores": len(os.sched_getaffinity(0)),
            "platform": platform.platform(),
            "numpy": np.__version__,
        }
        args.json.write_text(
            json.dumps({"machine": machine, "cases": records}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
