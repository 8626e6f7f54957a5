import csv

import pytest

from vsepp.training.history import EpochRecord, is_collapsed, write_history


@pytest.mark.parametrize(
    ("loss", "spread", "expected"),
    [
        (0.4, 0.0, True),
        (0.4039, 0.009, True),
        (0.3961, 0.009, True),
        (0.41, 0.0, False),
        (0.38, 0.0, False),
        (0.4, 0.011, False),  # passes through that loss on its way
    ],
)
def test_a_collapse_has_the_loss_of_equal_embeddings_and_nearly_equal_scores(loss, spread, expected):
    assert is_collapsed(loss, 0.4, spread, 0.2) is expected


def test_a_loss_without_negatives_is_no_collapse():
    assert not is_collapsed(0.0, 0.0, 0.0, 0.2)


def test_history_is_written_unrounded_a_row_an_epoch(tmp_path):
    record = EpochRecord(1, 1 / 3, 2e-4, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 21.0, 0.5, 123.4, 0)
    write_history(tmp_path / "history.csv", [record, record])
    with (tmp_path / "history.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 2
    assert list(rows[0])[:4] == ["epoch", "loss", "lr", "i2t_r1"]
    assert float(rows[0]["loss"]) == 1 / 3
