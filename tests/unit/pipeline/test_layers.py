"""Inheritance and layers: what a run's values are, and where each was set."""

import shutil

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import PARAMS, edit, merged, nested, plan, refused
from snakemake.cli import parse_config

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.pipeline.files import settings_of, with_types
from vsepp.pipeline.layers import load
from vsepp.pipeline.planner import make_plan

RUNS = "papers/vsepp/runs.yaml"


COMPONENT = "components.loss.max_of_hinges"


def test_layers_take_precedence_in_the_documented_order(params):
    run, overrides = "flickr-vsepp-rc", {"label": "trial"}
    layers = [
        (RUNS, "vsepp"),
        (RUNS, run),
        ("fidelity/paper.yaml", COMPONENT),
        ("fidelity/paper.yaml", "runs.default"),
        ("papers/vsepp/fidelity.yaml", f"paper.{COMPONENT}"),
        ("papers/vsepp/fidelity.yaml", "paper.runs.default"),
        ("presets/mini.yaml", COMPONENT),
        ("presets/mini.yaml", "runs.default"),
        ("--config", COMPONENT),
        ("--config", "runs.default"),
    ]
    for number, (file, key) in enumerate(layers, start=1):
        option = key.endswith(COMPONENT)
        entry_of_layer = nested(
            key, {"margin": number} if option else {"loss": {"margin": number}, "clip_norm": number}
        )
        if file == "--config":
            overrides = merged(overrides, entry_of_layer)
        else:
            edit(params / file, entry_of_layer)
        loaded = load(params, overrides)
        keys, origins = loaded.all_runs[run], loaded.origins[run]
        where = file if file == "--config" else params / file
        entry = key.removeprefix("paper.").removeprefix("runs.")
        assert (keys.loss.options["margin"], origins["loss", "margin"]) == (number, f"{where}: {entry}")
        assert option or (keys.clip_norm, origins["clip_norm",]) == (number, f"{where}: {entry}")
    assert keys.loss == Component("max_of_hinges", {"margin": 10.0})
    assert ("loss", "curriculum") not in origins, "it has its default"


NAMED = {"name": "sum_of_hinges", "margin": 0.05}


@pytest.mark.parametrize(
    ("losses", "component"),
    [
        (["max_of_hinges"], Component("max_of_hinges")),
        ([{"name": "max_of_hinges", "margin": 0.2}], Component("max_of_hinges")),  # which is the default
        ([{"name": "max_of_hinges", "margin": 1, "curriculum": 0}], Component("max_of_hinges", {"margin": 1.0})),
        ([NAMED, {"margin": 0.3}], Component("sum_of_hinges", {"margin": 0.3})),
        ([{"margin": 0.3}, "max_of_hinges"], Component("max_of_hinges", {"margin": 0.3})),
        # A change of the name drops the options of the other component, named or not, and a change back has them again.
        ([NAMED, {"mask_same_image": True}, "max_of_hinges"], Component("max_of_hinges")),
        ([NAMED, "max_of_hinges", "sum_of_hinges"], Component("sum_of_hinges", {"margin": 0.05})),
        ([NAMED, {"name": "max_of_hinges", "curriculum": 0.5}], Component("max_of_hinges", {"curriculum": 0.5})),
    ],
)  # fmt: skip
def test_a_component_is_the_last_named_one_with_the_options_that_are_meant_for_it(params, losses, component):
    bases = ["coco-vsepp-1c", *(f"layer-{number}" for number in range(len(losses)))]
    entries = {
        name: {"base": base, "loss": loss, "protocols": ["1K"]}
        for base, name, loss in zip(bases, bases[1:], losses, strict=False)
    }
    edit(params / RUNS, entries)
    layers = load(params)
    assert layers.all_runs[bases[-1]].loss == component


def test_options_of_a_layer_reach_the_runs_that_name_the_component_and_no_others():
    margins = {"sum_of_hinges": {"margin": 0.4}}
    before, after = plan(label="x"), plan(label="x", components={"loss": margins})
    for run, model in after.models.items():
        loss, was = model.spec.loss, before.models[run].spec.loss
        assert loss == (Component("sum_of_hinges", {"margin": 0.4}) if was.name in margins else was)


def test_rows_are_not_inherited_and_protocols_come_from_rows_figures_and_the_run():
    layers = load(PARAMS, {"preset": "paper"})
    assert layers.all_runs["coco-vsepp-rc-rv-resnet"].feeds == {"1.10": "5x1K"}
    assert layers.all_runs["flickr-vsepp-rc-neg2"].feeds == {}
    assert layers.protocols["coco-vsepp-rc-rv-ft"] == ("5K", "5x1K")  # two rows
    assert layers.protocols["flickr-vsepp-rc-neg2"] == ("1K",)  # its own


def test_papers_share_runs_and_inherit_from_each_other(params):
    first = make_plan(params)
    mine, theirs = params / "papers" / "mine", params / "papers" / "vsepp"
    mine.mkdir()
    (mine / "runs.yaml").write_text("mine: {base: coco-vsepp-rc, clip_norm: 3, protocols: [1K]}\n")
    shutil.copy(theirs / "published.csv", mine)
    tables = yaml.safe_load((theirs / "tables.yaml").read_text())
    rows = [{"run": "coco-vsepp-rc", "protocol": "5K"}, {"run": "mine", "protocol": "5x1K"}]
    table = {"title": "T", "caption": "C.", "dataset": "coco", "trainset": True}
    table["groups"] = [{"heading": "H", "rows": rows}]
    (mine / "tables.yaml").write_text(yaml.safe_dump({**tables, "tables": {"shared": table}, "figures": {}}))

    both = make_plan(params, {"papers": ["vsepp", "mine"]})
    # What a run says itself counts more than what its base says, in whichever file that stands.
    assert both.models["mine"].spec.schedule.clip_norm == 3
    name = "coco-vsepp-rc/seed-0"
    assert both.table["run", name].spec == first.table["run", name].spec, "it is trained once"
    protocols = [planned.table["evaluation", name].spec.protocols for planned in (first, both)]
    assert protocols == [("5x1K",), ("5K", "5x1K")], "for both papers at once"
    assert both.models["mine"].protocols == ("1K", "5x1K")
    shown = {
        name: {model.model for model in report.spec.models} for name, report in both.of_kind("report").items()
    }
    assert shown["mine"] == {"coco-vsepp-rc", "mine"} and "mine" not in shown["vsepp"]


def test_figures_of_a_paper_have_their_runs_evaluated_under_their_protocol(params):
    assert make_plan(params).models["flickr-vse0-1c"].protocols == ("1K",)
    figure = {"kind": "negative_set", "title": "T", "caption": "C.", "dataset": "coco", "metrics": ["i2t_r1"]}
    runs = {2: "coco-vsepp-1c", 8: "coco-vsepp-rc"}
    figure |= {"runs": runs, "labels": ["A", "B"], "baseline": "coco-vse0-1c", "protocol": "5K"}
    edit(params / "papers/vsepp/tables.yaml", {"figures": {"mine": figure}})
    protocols = load(params).protocols
    for run, fed in {"coco-vsepp-1c": {"1K", "5x1K"}, "coco-vsepp-rc": {"5x1K"}}.items():
        assert set(protocols[run]) == {*fed, "5K"}


# Settings.


def test_overrides_need_a_label_of_their_own():
    shorter = {"default": {"epochs": 1}}
    assert "label" in refused(PARAMS, runs=shorter)
    assert "label" in refused(PARAMS, label="paper", runs=shorter), "the name of a fidelity"
    planned = plan(label="short", runs=shorter)
    assert planned.variant == "short"
    assert planned.models["coco-vse0-1c"].spec.schedule.epochs == 1


def test_choosing_runs_seeds_and_resources_needs_no_label():
    layers = plan(only="*-1c", seeds=[3, 4], resources={"threads": 2})
    assert set(layers.models) == {"coco-vse0-1c", "coco-vsepp-1c", "flickr-vse0-1c", "flickr-vsepp-1c"}
    assert list(layers.models["coco-vse0-1c"].specs) == [3, 4]
    tuned = plan(only="flickr-vse0-rc-ft").models
    assert set(tuned) == {"flickr-vse0-rc", "flickr-vse0-rc-ft"}, "it brings the run that it starts from"


SCALARS = st.sampled_from([
    "012", "12", "-3", "1_000", "0x10", "1e-05", "2e-4", ".5", "nan", ".inf", "yes", "no", "on", "True", "true", "tRue",
    "null", "None", "~", "", " ", "#", "'012'", '"12"', "*-1c", "&a", "!x", "12:30", "2020-01-01", "=", "9" * 5000,
])  # fmt: skip
TEXTS = st.one_of(
    SCALARS,
    SCALARS.map("[{}]".format),
    st.tuples(SCALARS, SCALARS).map(lambda pair: f"{{default: {{a: {pair[0]}, b: [{pair[1]}]}}}}"),
    SCALARS.map(lambda text: f'"{text}"'),
    st.text(max_size=12),
)


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_a_value_of_the_command_line_means_by_hand_what_it_means_to_snakemake(text):
    try:
        theirs = with_types(parse_config([f"label={text}"]))
    except AssertionError:
        with pytest.raises(VseppError, match="label: got "):
            settings_of([f"label={text}"])
    else:
        assert repr(settings_of([f"label={text}"])) == repr(theirs)


def test_a_value_of_the_command_line_has_its_type():
    text = "{a: 3, b: false, c: 2e-4, d: null, e: .5, f: 012, g: yes, h: 0x10, i: 1_000, k: 2020-01-01}"
    of_text = {"f": "012", "g": "yes", "h": "0x10", "i": "1_000", "k": "2020-01-01"}
    typed = {"a": 3, "b": False, "c": 0.0002, "d": None, "e": 0.5, **of_text}
    items = [f"runs={text}", "only=*-1c", "seeds=[0, 1]", "label=012"]
    layers = {"runs": typed, "only": "*-1c", "seeds": [0, 1], "label": 12}
    assert settings_of(items) == layers
    text_of_refusal = refused(PARAMS, **settings_of(["label=012"]))
    assert "--config: label: got 12; " in text_of_refusal and "write label=mine" in text_of_refusal
