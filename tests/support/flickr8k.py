"""Flickr8k's own files, of people who have them: their licence lets nobody ship them."""

import os
import re
import zipfile
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared/data"
"""Data of others beside the checkout, where somebody put them."""
_BESIDE = SHARED / "flickr8k"


def archives(name):
    """The folder of the release, which must hold a file or folder of this name; the test is skipped where it is not here."""
    folder = Path(os.environ.get("VSEPP_FLICKR8K_ARCHIVES", _BESIDE))
    if not (folder / name).exists():
        pytest.skip(f"Flickr8k's {name} is not here; VSEPP_FLICKR8K_ARCHIVES names its folder")
    return folder


def text_of(folder, member):
    """A text file of the release."""
    with zipfile.ZipFile(folder / "Flickr8k_text.zip") as archive:
        name = next(name for name in archive.namelist() if re.search(rf"(^|/){re.escape(member)}$", name))
        return archive.read(name).decode()


def captions_in(folder):
    """File name of each photograph → its captions."""
    captions = {}
    for line in text_of(folder, "Flickr8k.token.txt").splitlines():
        key, text = line.split("\t")
        captions.setdefault(key.partition("#")[0], []).append(text)
    return captions
