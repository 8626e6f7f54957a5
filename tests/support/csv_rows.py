"""Rows of a CSV file."""

import csv


def csv_rows(path):
    """Heading → cell, of each row."""
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
