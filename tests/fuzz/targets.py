"""What is fuzzed: each target writes valid files, reads them, and says what is wrong with a result.

A result must be what the damaged files say (an oracle reads them anew, in a few lines that trust them), or that of the undamaged
files where a checksum or manifest would tell.
"""

import argparse
import csv
import dataclasses
import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import specs
import torch
import yaml
from legacy_files import PROGRESS, image_state, text_state, vocabulary, write_pickle, write_released
from PIL import Image, ImageFile
from raw_layouts import corpus, jpeg, paths, read, write_coco, write_flickr8k, write_karpathy, write_precomp
from test_sets import embedded, under

import vsepp
from vsepp.api import LAYOUT, LAYOUT_FILE
from vsepp.base.manifest import recorded
from vsepp.base.spec import StoreSpec, to_dict, to_json
from vsepp.data.captions import SPECIAL, Vocabulary
from vsepp.data.decode import build_store
from vsepp.data.download import read_lock
from vsepp.data.raw import Container
from vsepp.data.store import open_store
from vsepp.data.tables import read_tables, write_tables
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truths import cxc, eccv
from vsepp.features.published import import_precomputed
from vsepp.models.encoder import build_encoder, save_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.released import read_checkpoint, read_words

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Target:
    """A reader."""

    prepare: Callable[[Path], Any]
    """Writes valid files into a folder; gives what `read` takes."""
    read: Callable[[Any], Any]
    """Raises `VseppError`, or gives what was read."""
    wrong: Callable[[Any, Any, Any], str | None]
    """Takes what `read` took, its result, and the undamaged files' result; says what is wrong."""
    files: str = "*"
    """Which files are damaged, as a pattern below the folder."""


def table(spec):
    """(image id, split, [(caption id, text)]) of each image."""
    images, captions = read(spec)
    of = {row: [] for row in range(len(images))}
    for caption_id, row, text in zip(
        captions["caption_id"], captions["image_index"], captions["text"], strict=True
    ):
        of[row].append((int(caption_id), text))
    return [
        (*pair, of[row]) for row, pair in enumerate(zip(images["image_id"], images["split"], strict=True))
    ]


def differs(expected, result):
    """What is wrong where two tables should be equal."""
    if expected == result:
        return None
    pairs = zip(expected, result, strict=False)
    return f"{len(expected)} rows, got {len(result)}; first difference: {next((p for p in pairs if p[0] != p[1]), None)!r:.300}"


def text_in(path):
    return Path(path).read_bytes().decode("utf-8-sig")


def usable(captions):
    """Captions as a corpus keeps them: those without text are left out, and line ends are blanks."""
    texts = [(number, re.sub("\r\n|[\r\n]", " ", text)) for number, text in captions if isinstance(text, str)]
    return [(number, text) for number, text in texts if text.strip() and not re.search(NO_TEXT, text)]


def kept(images):
    """Images `(path, id, split, captions)` as a corpus keeps them: with a caption and a path that a file can have."""
    return [
        (image_id, split, captions)
        for path, image_id, split, captions in images
        if captions and not re.search(NO_NAME, path)
    ]


NO_TEXT, NO_NAME = "[\0\ud800-\udfff]", "[\0-\x1f\x7f-\x9f\ud800-\udfff]"


def coco_as_written(spec, result, *_):
    texts = {}
    for role in ("train_captions", "val_captions"):
        for row in json.loads(text_in(spec.files[role]))["annotations"]:
            texts[row["id"], row["image_id"]] = row["caption"]
    expected = [
        (
            image["filename"],
            str(image["cocoid"]),
            image["split"],
            usable((i, texts[i, image["cocoid"]]) for i in sentids_of(image))[:5],
        )
        for image in json.loads(text_in(spec.files["splits"]))["images"]
    ]
    return differs(kept(expected), result)


def karpathy_as_written(spec, result, *_):
    expected = []
    for image in json.loads(text_in(spec.files["splits"]))["images"]:
        raw = {sentence["sentid"]: sentence["raw"] for sentence in image["sentences"]}
        stem = Path(image["filename"]).stem
        captions = usable((i, raw[i]) for i in sentids_of(image))
        expected.append((image["filename"], stem, image["split"], captions))
    return differs(kept(expected), result)


def sentids_of(image):
    return image.get("sentids", [sentence["sentid"] for sentence in image["sentences"]])


def flickr8k_as_written(spec, result, *_):
    folder, captions, expected = Path(spec.files["text"]), {}, []
    for number, line in enumerate(text_in(folder / "Flickr8k.token.txt").split("\n"), start=1):
        head, tab, text = line.removesuffix("\r").partition("\t")
        if tab:
            captions.setdefault(head.rpartition("#")[0], []).append((number, text))
    for split, listed in (("train", "train"), ("val", "dev"), ("test", "test")):
        for name in text_in(folder / f"Flickr_8k.{listed}Images.txt").split("\n"):
            if name.strip():
                path = name.strip()
                expected.append((path, Path(path).stem, split, usable(captions[path])))
    return differs(kept(expected), result)


def csv_as_written(spec, result, *_):
    head, *rows = csv.reader(io.StringIO(text_in(spec.files["captions"]), newline=""), skipinitialspace=True)
    head = [name.strip().lower() for name in head]
    if not {"image", "caption"} <= set(head):
        return None  # other columns or another delimiter, which are not read here a second time
    expected = {}
    for number, row in enumerate((row for row in rows if row), start=1):
        of = dict(zip(head, row, strict=False))
        name = of["image"].strip()
        if not Path(name).name:  # names no image, so it is left out
            continue
        # Without a column of splits they are drawn, which is not repeated here.
        drawn = {image: split for image, split, _ in result}.get(str(Path(name).with_suffix("")))
        image = expected.setdefault(
            name, (str(Path(name).with_suffix("")), of.get("split", drawn).strip(), [])
        )
        image[2].append((number, of["caption"]))
    images = [
        (name, image_id, split, usable(captions)) for name, (image_id, split, captions) in expected.items()
    ]
    return differs(kept(images), result)


def write_csv(folder):
    names = ["a.jpg", "b.jpg", "c.jpg"]
    (folder / "pictures").mkdir()
    for number, name in enumerate(names):
        (folder / "pictures" / name).write_bytes(jpeg(number))
    splits = dict(zip(names, ("train", "val", "test"), strict=True))
    rows = [f'{name},"a caption, {k} of ""{name}""",{splits[name]}' for name in names for k in (0, 1)]
    (folder / "captions.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n", encoding="utf-8")
    return corpus(
        "own",
        "captions_csv",
        {"images": folder / "pictures", "captions": folder / "captions.csv"},
        captions_per_image=None,
    )


def precomp_features(spec):
    images, captions = read(spec)
    out = Path(spec.files["folder"]).parent / "made"
    shutil.rmtree(out, ignore_errors=True)
    import_precomputed(spec, images, paths(spec), out)
    return np.load(out / "features.npy"), captions["text"].tolist()


def precomp_as_written(spec, result, *_):
    folder, texts, rows = Path(spec.files["folder"]), [], []
    for prefix in ("train", "dev", "test"):
        lines = text_in(folder / f"{prefix}_caps.txt").split("\n")
        captions = lines if lines[-1] not in ("", "\r") else lines[:-1]
        features = np.load(folder / f"{prefix}_ims.npy")
        texts += [text for _, text in usable(enumerate(line.removesuffix("\r") for line in captions))]
        features = features.reshape(len(features), -1, features.shape[-1])
        rows.append(features if 5 * len(features) == len(captions) else features[::5])
    if texts != result[1]:
        return "other captions than the files have"
    if not np.array_equal(np.concatenate(rows), result[0]):
        return "other features than the files have"
    return None if np.isfinite(result[0]).all() else "features that are not finite"


def zip_of_photographs(folder):
    with zipfile.ZipFile(folder / "photographs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"flickr30k-images/{number}.jpg", jpeg(number))
    return folder / "photographs.zip"


def read_container(path):
    container = Container(path)
    return {name: container.read(name) for name in container.names}


def same_members(path, result, undamaged):
    foreign = [name for name, content in result.items() if content not in undamaged.values()]
    return f"content that the undamaged archive has not: {foreign}" if foreign else None


def write_embeddings(folder):
    made = np.random.default_rng(0)
    images, captions = (made.standard_normal((n, 4)).astype(np.float32) for n in (3, 15))
    embedded(images, captions, np.arange(15) // 5).save(folder / "embeddings.npz")
    return folder / "embeddings.npz"


def read_embeddings(path):
    found = TestSet.read(path)
    under(found)
    return found


def embeddings_as_written(path, result, *_):
    found = {**result.scores.arrays, "caption_to_image": result.caption_to_image}
    return _arrays_as_written(path, found, ("image_embeddings", "caption_embeddings", "caption_to_image"))


def _arrays_as_written(path, result, names):
    with zipfile.ZipFile(path) as archive:
        for name in names:
            written = np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
            if not np.array_equal(written.astype(result[name].dtype), result[name]):
                return f"{name} is not as written"
        if sorted({*archive.namelist()}) != sorted(archive.namelist()):
            return "a member that is there twice"
    return None


SCORES = np.random.default_rng(0).standard_normal((3, 6))
OWNER = np.arange(6) // 2


def write_scores(folder):
    np.savez(folder / "scores.npz", scores=SCORES, caption_to_image=OWNER, caption_ids=np.arange(6))
    return folder / "scores.npz"


def write_lists(folder):
    (captions, i2t), (images, t2i) = (
        (np.argsort(-s, axis=1)[:, :2], -np.sort(-s, axis=1)[:, :2]) for s in (SCORES, SCORES.T)
    )
    lists = {"i2t_items": captions, "i2t_scores": i2t, "t2i_items": images, "t2i_scores": t2i}
    np.savez(folder / "lists.npz", caption_to_image=OWNER, **lists)
    return folder / "lists.npz"


def read_scored(path):
    found = TestSet.read(path)
    under(found)
    return found


def scores_as_written(path, result, *_):
    found = {**vars(result), "scores": result.scores.scores}
    return _arrays_as_written(path, found, ("scores", "caption_to_image"))


def lists_as_written(path, result, *_):
    found = {"caption_to_image": result.caption_to_image}
    for task, (items, scores) in result.scores.lists.items():
        found |= {f"{task}_items": items, f"{task}_scores": scores}
    return _arrays_as_written(path, found, tuple(found))


def write_corpus(folder):
    spec = write_karpathy(folder / "raw")
    images, captions = read(spec)
    (folder / "corpus").mkdir()
    with recorded(folder / "corpus", "corpus", spec=to_dict(spec), inputs={}):
        write_tables(folder / "corpus", images, captions)
    shutil.rmtree(folder / "raw")
    return folder / "corpus"


def read_columns(folder):
    images, captions = read_tables(folder)
    columns = [
        (images, ("image_id", "file_name", "container", "member", "split")),
        (captions, ("caption_id", "image_index", "text", "split")),
    ]
    return [[of[name].tolist() for name in names] for of, names in columns]


def same(context, result, undamaged):
    return None if result == undamaged else "not the result of the undamaged files"


def write_checkpoint(folder):
    image, text, flags = image_state(8, 6), text_state(7, 4, 6), {"embed_size": 6, "margin": 0.2}
    write_released(folder / "old.pth.tar", image, text, flags)
    content = {**PROGRESS, "model": [image, text], "opt": argparse.Namespace(**flags)}
    torch.save(content, folder / "new.pth.tar")
    return folder


def read_checkpoints(folder):
    return [read_checkpoint(folder / name) for name in ("old.pth.tar", "new.pth.tar")]


def checkpoints_fit(folder, result, *_):
    """Their numbers have no checksum in the old form; their kinds and sizes must fit the file."""
    for name, found in zip(("old.pth.tar", "new.pth.tar"), result, strict=True):
        tensors = {**found.image, **found.text}
        if not all(
            isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in tensors.items()
        ):
            return "weights that are none"
        if any(value.nbytes > (folder / name).stat().st_size for value in tensors.values()):
            return "more numbers than the file has"
        json.dumps([found.opt, found.progress])
    return None


def words_fit(path, result, *_):
    proper = all(isinstance(word, str) and word.encode() is not None for word in result)
    return None if proper and len(set(result)) == len(result) else "words that are none or repeated"


def write_run(folder):
    """A run that is exported, of a small model that was not trained."""
    run = dataclasses.replace(
        specs.RUN, encoder=dataclasses.replace(specs.ENCODER, input_size=16, store_side=16)
    )
    torch.manual_seed(0)
    whole, inside = folder / "exported", folder / "exported" / "encoder"
    inside.mkdir(parents=True)
    encoder = build_encoder(run.encoder)
    with recorded(inside, "encoder", spec=to_dict(run.encoder), inputs={}):
        save_encoder(encoder, inside)
    words = Vocabulary((*SPECIAL, "a", "dog", "red"), {}, 1, ("train",), 1, "")
    joint = JointEmbedding(run.model, encoder.dim, len(words))
    from safetensors.torch import save_file

    with recorded(whole, "train", spec=to_dict(run), inputs={"encoder": inside}):
        shutil.move(inside, folder / "encoder")  # a manifest names files of its own folder
        save_file(joint.state_dict(), whole / "model.safetensors")
        words.write(whole)
        (whole / "config.json").write_text(to_json(run))
    shutil.move(folder / "encoder", inside)
    (whole / LAYOUT_FILE).write_text(
        json.dumps({"layout": LAYOUT, "version": vsepp.__version__, "run": run.id})
    )
    return whole


def load_run(folder):
    model = vsepp.load(folder, device="cpu")
    state = {**model.joint.state_dict(), **(model.encoder.state_dict() if model.encoder else {})}
    return to_json(model.run), model.vocabulary.words, {key: value.tolist() for key, value in state.items()}


def write_lock(folder):
    entry = {
        "sha256": "0123456789abcdef" * 4,
        "size": 123,
        "url": "https://example.org/a",
        "date": "2026-11-22",
    }
    (folder / "sources.lock.yaml").write_text(
        yaml.safe_dump({"a.bin": entry, "b.zip": {**entry, "url": None}})
    )
    return folder / "sources.lock.yaml"


def lock_as_written(path, result, *_):
    # Tabs between tokens are YAML; PyYAML's loader without libyaml refuses them.
    written = yaml.load(text_in(path), yaml.CSafeLoader) or {}
    entries = {file: dataclasses.asdict(recorded) for file, recorded in result.items()}
    return None if entries == written else "other entries than written"


def write_photographs(folder):
    (folder / "photographs").mkdir()
    for name, image in photographs().items():
        image[0].save(folder / "photographs" / name, **image[1])
    return folder


def photographs():
    """One small picture of each kind of file."""
    made = np.random.default_rng(0)
    grey = Image.fromarray(made.integers(0, 256, (4, 5), np.uint8)).resize(
        (20, 16), Image.Resampling.BILINEAR
    )
    rgb = Image.merge("RGB", [grey, grey.rotate(90), grey.rotate(180)])
    return {
        "a.jpg": (rgb, {"quality": 90}),
        "progressive.jpg": (rgb, {"progressive": True}),
        "grey.jpg": (grey, {}),
        "a.png": (rgb, {}),
        "palette.png": (rgb.quantize(16), {}),
        "a.tif": (rgb, {}),
        "packed.tif": (rgb, {"compression": "tiff_lzw"}),
        "a.webp": (rgb, {"lossless": True}),
        "a.gif": (rgb.quantize(16), {}),
    }


def stored_photographs(folder):
    """Each stored by itself: pixels or what is said of it; raises if none can be stored."""
    place = folder / "photographs"
    names = sorted(path.name for path in place.iterdir())
    shutil.rmtree(folder / "out", ignore_errors=True)
    shutil.rmtree(folder / "state", ignore_errors=True)
    images = pd.DataFrame({"container": "images", "member": names, "split": "train"})
    spec = corpus("any", "karpathy", {"images": place})
    build_store(images, spec, paths(spec), StoreSpec("squash", 16), folder / "out", folder / "state", 1)
    return np.array(open_store(folder / "out"))


def photographs_as_decoded(folder, result, undamaged):
    """Each as it is decoded here, whole: data that end early are no picture."""
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    for row, path in enumerate(sorted((folder / "photographs").iterdir())):
        with Image.open(path) as image:
            expected = np.asarray(image.convert("RGB").resize((16, 16), Image.Resampling.BILINEAR))
        if not np.array_equal(expected, result[row]):
            return f"{path.name}: other pixels"
    return None


def write_cxc(folder):
    """Two images with two captions each."""
    caption, image = "COCO_val2014:sentid:{}", "COCO_val2014_{:012d}.jpg"
    rows = {
        "sits": [(caption.format(row), image.format(row // 3), 4.5, "c2i_original") for row in (1, 2, 3, 4)]
        + [(caption.format(1), image.format(1), 2.96, "c2i_intrasim")],
        "sts": [(caption.format(1), caption.format(3), 4.2, "c2c_isim")],
        "sis": [(image.format(0), image.format(1), 2.5, "i2i_csim")],
    }
    (folder / "cxc").mkdir()
    files = {}
    for name, lines in rows.items():
        files[name] = folder / "cxc" / cxc.FILES[name]
        text = [("one", "other", "agg_score", "sampling_method"), *lines]
        files[name].write_text("".join(",".join(map(str, line)) + "\n" for line in text))
    return files


def positives_of(truth):
    ids = {"i": np.asarray(truth.image_ids), "t": np.asarray(truth.caption_ids)}
    return {
        task: set(zip(ids[task[0]][each.rows].tolist(), ids[task[2]][each.items].tolist(), strict=True))
        for task, each in truth.tasks.items()
    }


def ratings_as_written(files, truth, *_):
    rows = list(csv.reader(io.StringIO(text_in(files["sits"]), newline="")))[1:]
    rated = {(int(row[1][13:25]), int(row[0].rpartition(":")[2])) for row in rows if float(row[2]) >= 3}
    return differs(rated, positives_of(truth)["i2t"])


def write_eccv(folder):
    (folder / "eccv").mkdir()
    pairs = {"gallery": {"1": [1, 2], "2": [3, 4]}, "i2t": {"1": [1, 3], "2": [3, 9]}, "t2i": {"3": [1, 2]}}
    files = {role: folder / "eccv" / eccv.FILES[role] for role in pairs}
    for role, path in files.items():
        path.write_text(json.dumps(pairs[role]))
    return files


def lists_of_ids_as_written(files, truth, *_):
    said = {role: json.loads(text_in(path)) for role, path in files.items()}
    expected = {
        role: {(int(query), item) for query, items in said[role].items() for item in items}
        for role in ("i2t", "t2i")
    }
    return differs(expected, positives_of(truth))


TARGETS = {
    "coco": Target(write_coco, table, coco_as_written, "**/*.json"),
    "karpathy": Target(write_karpathy, table, karpathy_as_written, "*.json"),
    "flickr8k": Target(write_flickr8k, table, flickr8k_as_written, "text/*"),
    "captions_csv": Target(write_csv, table, csv_as_written, "*.csv"),
    "precomp": Target(write_precomp, precomp_features, precomp_as_written, "f30k_precomp/*"),
    "precomp, regions": Target(
        lambda folder: write_precomp(folder, shape=(3, 6)),
        precomp_features,
        precomp_as_written,
        "f30k_precomp/*",
    ),
    "zip archive": Target(zip_of_photographs, read_container, same_members),
    "embeddings": Target(write_embeddings, read_embeddings, embeddings_as_written),
    "ratings of CxC": Target(write_cxc, cxc.read, ratings_as_written, "cxc/*"),
    "positives of ECCV": Target(write_eccv, eccv.read, lists_of_ids_as_written, "eccv/*"),
    "matrix of scores": Target(write_scores, read_scored, scores_as_written),
    "lists of the best": Target(write_lists, read_scored, lists_as_written),
    "tables": Target(write_corpus, read_columns, same, "corpus/*"),
    "released checkpoints": Target(write_checkpoint, read_checkpoints, checkpoints_fit),
    "released vocabulary": Target(
        lambda folder: (
            write_pickle(
                folder / "vocab.pkl", vocabulary(["<pad>", "<start>", "<end>", "<unk>", "dog", "café"])
            )
            or folder / "vocab.pkl"
        ),
        read_words,
        words_fit,
    ),
    "exported run": Target(write_run, load_run, same, "exported/**/*"),
    "sums of downloads": Target(write_lock, read_lock, lock_as_written),
    "photographs": Target(write_photographs, stored_photographs, photographs_as_decoded, "photographs/*"),
}
