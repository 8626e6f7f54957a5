from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.protocols import evaluate
from vsepp.reporting.origins import Origin
from vsepp.reporting.records import read_history, read_metrics

I2T, T2I = [50.25, 80, 90, 1, 5.5], [40, 70, 85, 2, 9]


def test_metrics_are_read_unrounded_with_their_provenance(write_metrics):
    first = write_metrics("run", I2T, T2I, seed=3, git={"commit": "abc", "dirty": True})
    second = write_metrics("run", [51.0, *I2T[1:]], T2I, seed=4)
    records = read_metrics([first, second], "5x1K")
    assert records["i2t_r1"].tolist() == [50.25, 51.0]
    assert records["t2i_medr"].tolist() == [2.0, 2.0]
    assert records["fold_size"].tolist() == [100, 100]
    assert records["rsum"].tolist() == [415.25, 416.0]
    assert records["seed"].tolist()[0] == 3
    assert records["origin"].tolist() == [
        Origin(None, ("abc", True), ("evaluate",)),
        Origin(None, ("unknown", False)),
    ]


def test_what_evaluation_writes_is_read(tmp_path):
    rng = np.random.default_rng(0)
    embeddings = Embeddings(
        image_embeddings=rng.normal(size=(10, 4)).astype(np.float32),
        caption_embeddings=rng.normal(size=(20, 4)).astype(np.float32),
        caption_to_image=np.repeat(np.arange(10), 2),
    )
    evaluation = evaluate(embeddings, "5x1K", fold_size=2)
    file = tmp_path / "metrics.json"
    file.write_text(json.dumps({"5x1K": evaluation.to_dict()}))
    (record,) = read_metrics([file], "5x1K").to_dict("records")
    assert record["i2t_r1"] == evaluation.metrics.i2t.r1
    assert record["t2i_meanr"] == evaluation.metrics.t2i.meanr
    assert (record["fold_size"], record["n_images"], record["n_captions"]) == (2, 10, 20)


def test_no_files_give_an_empty_table_with_all_columns():
    records = read_metrics([], "1K")
    assert records.empty
    assert {"i2t_r1", "t2i_medr", "origin"} <= set(records.columns)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(VseppError, match=r"gone/metrics\.json: no such file"):
        read_metrics([tmp_path / "gone" / "metrics.json"], "1K")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("5x1K"), "no protocol 5x1K"),
        (lambda m: m["5x1K"].pop("fold_size"), r"no key 5x1K\.fold_size"),
        (lambda m: m["5x1K"].pop("text_to_image"), r"no key 5x1K\.text_to_image"),
        (lambda m: m["5x1K"]["image_to_text"].pop("medr"), r"no key 5x1K\.image_to_text\.medr"),
        (lambda m: m["5x1K"]["image_to_text"].update(r5="80"), r"5x1K\.image_to_text\.r5.*'80'"),
        (lambda m: m["5x1K"]["image_to_text"].update(r5=float("nan")), r"image_to_text\.r5.*finite"),
        (lambda m: m["5x1K"]["text_to_image"].update(r10=100.5), r"text_to_image\.r10.*per cent"),
        (lambda m: m["5x1K"]["text_to_image"].update(medr=0), r"text_to_image\.medr.*at least 1"),
        (lambda m: m["5x1K"].update(protocol="5K"), r"5x1K\.protocol: expected 5x1K, got 5K"),
    ],
)
def test_malformed_metrics_name_the_file_and_the_key(write_metrics, change, message):
    file = Path(write_metrics("run", I2T, T2I))
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with pytest.raises(VseppError, match=message) as error:
        read_metrics([file], "5x1K")
    assert str(file) in str(error.value)


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_what_is_not_an_object_of_json_is_refused(tmp_path, text):
    file = tmp_path / "metrics.json"
    file.write_text(text)
    with pytest.raises(VseppError, match=r"metrics\.json"):
        read_metrics([file], "1K")


def test_seeds_of_different_test_sets_are_not_averaged(write_metrics):
    files = [write_metrics("run", I2T, T2I, seed=0), write_metrics("run", I2T, T2I, seed=1, fold_size=90)]
    with pytest.raises(VseppError, match="fold_size"):
        read_metrics(files, "5x1K")


def test_a_history_becomes_one_row_per_epoch_and_metric(write_history):
    history = read_history([write_history("run", [10.5, 20])], ["i2t_r1", "t2i_r1"])
    found = history[["epoch", "metric", "value"]].to_numpy().tolist()
    assert found == [[1, "i2t_r1", 10.5], [2, "i2t_r1", 20.0], [1, "t2i_r1", 5.5], [2, "t2i_r1", 15.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch,loss\n1,2\n", "no column i2t_r1"),
        ("epoch,i2t_r1\n1,20\n2,oops\n", "line 3: i2t_r1 is not a number: oops"),
        ("epoch,i2t_r1\n", "no epochs"),
        ("", "not a table"),
    ],
)
def test_a_malformed_history_names_the_file_and_the_place(tmp_path, text, message):
    file = tmp_path / "history.csv"
    file.write_text(text)
    with pytest.raises(VseppError, match=message) as error:
        read_history([file], ["i2t_r1"])
    assert str(file) in str(error.value)
