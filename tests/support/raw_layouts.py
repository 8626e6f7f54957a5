"""Small corpora in the raw layouts of COCO 2014, Flickr30K and Flickr8k, made of real JPEG files."""

import io
import json
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component, CorpusSpec
from vsepp.data.corpus import read_corpus

# (id, folder, split) in the order of the split file, which is nobody's sorted order.
COCO_IMAGES = [
    (57, "val2014", "test"),
    (12, "val2014", "restval"),
    (9, "val2014", "val"),
    (31, "train2014", "train"),
    (8, "val2014", "test"),
    (5, "train2014", "train"),
    (44, "val2014", "restval"),
    (70, "val2014", "val"),
    (3, "train2014", "train"),
]
FLICKR_IMAGES = [
    ("b.jpg", "train"),
    ("d.jpg", "test"),
    ("a.jpg", "val"),
    ("c.jpg", "train"),
    ("e.jpg", "test"),
]


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    """A picture as a file of a format that Pillow writes."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def jpeg(seed: int, size: tuple[int, int] = (24, 18), mode: str = "RGB") -> bytes:
    """A smooth photograph of (width, height)."""
    channels = len(Image.new(mode, (1, 1)).getbands())
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 4, channels), dtype=np.uint8)
    image = Image.fromarray(coarse[..., 0] if channels == 1 else coarse, mode=mode)
    return encoded(image.resize(size, Image.Resampling.BILINEAR), "JPEG", quality=92)


def coco_name(image_id: int, folder: str) -> str:
    return f"COCO_{folder}_{image_id:012d}.jpg"


def write_coco(root: Path, photographs: list[tuple[int, str, str]] = COCO_IMAGES) -> CorpusSpec:
    """Images `(id, folder, split)` with five captions each, image 12 with six; sentence ids not in the texts' order."""
    sentences, annotations = [], {"train2014": [], "val2014": []}
    for image_id, folder, split in photographs:
        count = 6 if image_id == 12 else 5
        ids = [1000 * image_id + k for k in range(count)][::-1]
        path = root / folder / coco_name(image_id, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(image_id))
        annotations[folder] += [
            {"id": i, "image_id": image_id, "caption": f"Caption {i} of café."} for i in sorted(ids)
        ]
        texts = [{"raw": f"raw {i}", "sentid": i, "tokens": ["raw"], "imgid": 0} for i in sorted(ids)]
        sentences.append(
            {
                "filepath": folder,
                "filename": path.name,
                "split": split,
                "cocoid": image_id,
                "sentids": ids,
                "sentences": texts,
            }
        )
    write_json(root / "dataset_coco.json", {"images": sentences, "dataset": "coco"})
    for folder, rows in annotations.items():
        ids = sorted({row["image_id"] for row in rows})
        document = {"images": [{"id": i} for i in ids], "annotations": rows[::-1]}
        write_json(root / "annotations" / f"captions_{folder}.json", document)
    files = {
        "train_images": root / "train2014",
        "val_images": root / "val2014",
        "train_captions": root / "annotations/captions_train2014.json",
        "val_captions": root / "annotations/captions_val2014.json",
        "splits": root / "dataset_coco.json",
    }
    return corpus(
        "coco2014",
        "coco",
        files,
        surplus_captions="drop",
        expected_images=dict(Counter(split for *_, split in photographs)),
    )


def write_karpathy(root: Path) -> CorpusSpec:
    """Five images, two captions each."""
    images = []
    (root / "images").mkdir(parents=True)
    for row, (name, split) in enumerate(FLICKR_IMAGES):
        (root / "images" / name).write_bytes(jpeg(row))
        texts = [
            {"raw": f"{name} caption {k} .", "sentid": 2 * row + k, "tokens": [], "imgid": row}
            for k in (0, 1)
        ]
        sentids = [2 * row, 2 * row + 1]
        images.append(
            {"filename": name, "split": split, "imgid": row, "sentids": sentids, "sentences": texts}
        )
    write_json(root / "dataset_flickr30k.json", {"images": images, "dataset": "flickr30k"})
    files = {"images": root / "images", "splits": root / "dataset_flickr30k.json"}
    return corpus("flickr30k", "karpathy", files, captions_per_image=2)


def write_flickr8k(root: Path) -> CorpusSpec:
    """The same five images as the original release has them, and `x.jpg`, which is in no list."""
    (root / "Flicker8k_Dataset").mkdir(parents=True)
    (root / "text").mkdir()
    rows = [f"x.jpg.1#{k}\tnobody's caption {k}" for k in (0, 1)]
    for row, (name, _) in enumerate(FLICKR_IMAGES):
        (root / "Flicker8k_Dataset" / name).write_bytes(jpeg(row))
        rows += [f"{name}#{k}\t{name} caption {k} ." for k in (0, 1)]
    (root / "text/Flickr8k.token.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for split, list_name in (("train", "train"), ("val", "dev"), ("test", "test")):
        names = [name for name, where in FLICKR_IMAGES if where == split]
        (root / f"text/Flickr_8k.{list_name}Images.txt").write_text("\n".join(names) + "\n")
    files = {"images": root / "Flicker8k_Dataset", "text": root / "text"}
    return corpus("flickr8k", "flickr8k", files, captions_per_image=2)


PRECOMP_SIZES = {"train": 7, "dev": 2, "test": 3}


def precomp_features(prefix: str, count: int | None = None, shape: tuple[int, ...] = (6,)) -> np.ndarray:
    """float32 (n, *shape)."""
    count = PRECOMP_SIZES[prefix] if count is None else count
    return np.random.default_rng(len(prefix)).random((count, *shape), dtype=np.float32)


def write_precomp(
    root: Path, repeated: tuple[str, ...] = (), shape: tuple[int, ...] = (6,), **sizes: int
) -> CorpusSpec:
    """A folder of published features, `shape` an image; the splits of `repeated` have each row five times."""
    folder = root / "f30k_precomp"
    folder.mkdir(parents=True)
    for prefix, count in {**PRECOMP_SIZES, **sizes}.items():
        rows = precomp_features(prefix, count, shape)
        np.save(folder / f"{prefix}_ims.npy", np.repeat(rows, 5, axis=0) if prefix in repeated else rows)
        texts = [f"{prefix} café {image} caption {k}\n" for image in range(count) for k in range(5)]
        (folder / f"{prefix}_caps.txt").write_text("".join(texts), encoding="utf-8")
    return corpus("f30k_precomp", "precomp", {"folder": folder})


def corpus(name: str, reader: str, files: dict[str, Path], **values) -> CorpusSpec:
    values = {"captions_per_image": 5, **values}
    paths = {role: str(path) for role, path in files.items()}
    return CorpusSpec(name=name, reader=Component(reader), files=paths, **values)


def paths(spec: CorpusSpec) -> dict[str, Path]:
    """Where the files of a corpus made here lie: its spec names whole paths."""
    return {role: Path(name) for role, name in spec.files.items()}


def read(spec: CorpusSpec) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables of a corpus made here; `attrs["facts"]` of the images counts what was kept and what was left out."""
    images, captions, facts = read_corpus(spec, paths(spec))
    frame = pd.DataFrame(images)
    frame.attrs["facts"] = facts
    return frame, pd.DataFrame(captions)


def zipped(spec: CorpusSpec, prefix: str = "") -> CorpusSpec:
    """The corpus with each folder packed into a zip archive, below `prefix/` inside it."""
    files = dict(spec.files)
    for role, name in files.items():
        folder = Path(name)
        if folder.is_dir():
            files[role] = str(folder.with_name(folder.name + ".zip"))
            with zipfile.ZipFile(files[role], "w") as archive:
                for path in sorted(folder.rglob("*")):
                    archive.write(path, f"{prefix}{path.relative_to(folder).as_posix()}")
                archive.writestr("__MACOSX/._shadow.jpg", b"not a photograph")
    return replace(spec, files=files)


def write_json(path: Path, document) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def edit_json(path: str | Path, edit) -> None:
    """Change a JSON file in place."""
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    edit(document)
    write_json(Path(path), document)


def refused(spec: CorpusSpec, *parts: str) -> str:
    """The message with which a corpus is refused, which must hold all these parts; `…` stands between two."""
    with pytest.raises(VseppError) as caught:
        read(spec)
    message = str(caught.value)
    for part in " … ".join(parts).split(" … "):
        assert part in message
    return message
