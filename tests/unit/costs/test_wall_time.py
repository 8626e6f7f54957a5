"""Time of work, chains and wall time, against graphs that were worked out by hand and against their bounds."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from vsepp.config import make_plan
from vsepp.costs.counts import training_pairs
from vsepp.costs.disk import disk_items
from vsepp.costs.rates import Rates
from vsepp.costs.schedule import NO_COUNT, longest_chain, time_of, wall_seconds
from vsepp.costs.work import Job, Work, jobs_of

PARAMS = Path(__file__).resolve().parents[3] / "params"


def test_what_nobody_counted_is_unknown_and_not_guessed():
    plan = make_plan(
        PARAMS, {"preset": "paper", "label": "x", "corpora": {"coco": {"dataset": "coco_precomp"}}}
    )
    assert training_pairs(plan, plan.runs["coco-vsepp-1c"]) is None
    jobs = jobs_of(plan)
    work = jobs["training of coco-vsepp-1c, seed 0"].work
    assert {item.amount for item in work} == {None}
    rates = Rates("cpu", "m", "2026-01-01", 1, {item.entry: {item.rate: 1.0} for item in work})
    assert time_of(work, rates) == (0.0, {NO_COUNT})
    items = {item.name: item for item in disk_items(plan, jobs)}
    assert items[plan.runs["coco-vsepp-1c"].features].size is None


def rates(**entries):
    return Rates("a GPU", "a machine", "2026-01-01", 4, entries)


def test_time_is_amounts_over_rates():
    work = (
        Work("forward", "net", "forward_images_per_s", 3_000),
        Work("training", "head", "pairs_per_s", 5_000),
        Work("decode", "decode", "images_per_s_per_core", 800),
    )
    known = rates(
        net={"forward_images_per_s": 100.0},
        head={"pairs_per_s": 50.0},
        decode={"images_per_s_per_core": 20.0},
    )
    assert time_of(work, known) == (30 + 100 + 10, frozenset())  # four cores decode 80 a second
    assert time_of(work, known, ["forward"]).seconds == 30
    part = rates(net={"forward_images_per_s": 100.0})
    assert time_of(work, part) == (
        30,
        {"pairs_per_s of head", "images_per_s_per_core of decode"},
    )
    assert time_of(work, None).seconds == 0


def graph(**needs):
    """Jobs that need others; names that begin with s are stores."""
    return {
        name: Job("stores" if name.startswith("s") else "training", name, (), tuple(before))
        for name, before in needs.items()
    }


def test_longest_chain_by_hand():
    jobs = graph(s=[], tape=["s"], frozen=["tape"], tuned=["frozen"], other=["tape"], alone=[])
    seconds = {"s": 1.0, "tape": 10.0, "frozen": 3.0, "tuned": 20.0, "other": 22.0, "alone": 30.0}
    assert longest_chain(jobs, seconds) == (34.0, ["s", "tape", "frozen", "tuned"])
    assert longest_chain({}, {}) == (0.0, [])


def test_wall_time_by_hand():
    jobs = graph(s=[], a=[], b=["s"], c=["s"])
    seconds = {"s": 4.0, "a": 3.0, "b": 5.0, "c": 2.0}
    # One device: it takes a while the store is decoded on the cores, then waits one second for b and c.
    assert wall_seconds(jobs, seconds, 1) == 4 + 5 + 2
    assert wall_seconds(jobs, seconds, 2) == 4 + 5
    # The cores are the device: one after the other.
    assert wall_seconds(jobs, seconds, 1, cores_apart=False) == 14


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(0, 11))), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_wall_time_lies_between_its_bounds(drawn, devices):
    jobs = graph(**{f"j{k}": [f"j{n}" for n in sorted(needs) if n < k] for k, (_, needs) in enumerate(drawn)})
    seconds = {f"j{k}": float(length) for k, (length, _) in enumerate(drawn)}
    total, (chain, _) = sum(seconds.values()), longest_chain(jobs, seconds)
    wall = wall_seconds(jobs, seconds, devices)
    assert max(chain, total / devices) <= wall <= total
    # Graham (1969): no list schedule is longer.
    assert wall <= total / devices + (1 - 1 / devices) * chain + 1e-9
    assert wall_seconds(jobs, seconds, 1) == total
    assert wall_seconds(jobs, seconds, len(drawn)) == chain
