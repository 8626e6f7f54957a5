"""Images per second from JPEG to the store's pixels on one core, by several decoders, and through the whole store.

    python benchmarks/bench_decode.py --photographs Flickr8k_Dataset.zip --quality 95 --json decode.json
    python benchmarks/bench_decode.py --photographs Flickr8k_Dataset.zip --store 6000 --workers 2

The pictures are 640x480, as most of COCO's are. Small photographs are put together, six to a picture, rather than
enlarged: an enlarged one has no detail, and decoding takes as long as there is detail (COCO's files are about
160 kB in the mean). Without photographs, noise with the spectrum of photographs stands in. Each decoder is
compared with what the store does now, pixel by pixel. simplejpeg and OpenCV are measured where they are
installed; they are no dependencies. On a busy machine, images per CPU second are the figure to compare.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import resource
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

from vsepp.data.containers import Container
from vsepp.data.decode import resized
from vsepp.spec import CorpusSpec, StoreSpec

SIZE = (640, 480)
STORE = StoreSpec("squash", 256)
Decoder = Callable[[bytes], np.ndarray]


def pictures(
    photographs: Path | None, count: int, quality: int, subsampling: int, progressive: bool
) -> list[bytes]:
    """JPEG files of 640x480."""
    make = noise if photographs is None else Mosaics(photographs)
    encoded = []
    for number in range(count):
        stream = io.BytesIO()
        make(number).save(stream, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
        encoded.append(stream.getvalue())
    return encoded


class Mosaics:
    """Pictures of six photographs each, or of one where it is large enough."""

    def __init__(self, photographs: Path) -> None:
        self.container = Container(photographs)
        self.names = [name for name in self.container.names() if name.lower().endswith((".jpg", ".jpeg"))]

    def __call__(self, number: int) -> Image.Image:
        """Picture of that number."""
        first = self._photograph(number)
        if first.width >= SIZE[0] and first.height >= SIZE[1]:
            return first.resize(SIZE, Image.Resampling.BICUBIC)
        picture = Image.new("RGB", (3 * 224, 2 * 224))
        for place in range(6):
            tile = self._photograph(6 * number + place).resize((224, 224), Image.Resampling.BICUBIC)
            picture.paste(tile, (224 * (place % 3), 224 * (place // 3)))
        return picture.resize(SIZE, Image.Resampling.BICUBIC)

    def _photograph(self, number: int) -> Image.Image:
        data = self.container.read(self.names[number % len(self.names)])
        return Image.open(io.BytesIO(data)).convert("RGB")


def noise(seed: int) -> Image.Image:
    """Noise whose amplitude falls as 1/f, as in photographs."""
    width, height = SIZE
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    white = np.fft.rfft2(np.random.default_rng(seed).standard_normal((3, height, width)))
    pixels = np.fft.irfft2(white / frequency, s=(height, width))
    pixels = 128 + 45 * pixels / pixels.std()
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))


def decoders() -> dict[str, Decoder]:
    """Everything that can be measured here, what the store does now first."""
    side = (STORE.side, STORE.side)
    bilinear = Image.Resampling.BILINEAR

    def opened(data: bytes) -> Image.Image:
        image = Image.open(io.BytesIO(data))
        image.load()
        return image

    def draft(data: bytes) -> np.ndarray:
        image = Image.open(io.BytesIO(data))
        image.draft("RGB", side)
        return np.asarray(image.resize(side, bilinear))

    def reduced(data: bytes) -> np.ndarray:
        return np.asarray(opened(data).reduce((SIZE[0] // side[0], 1)).resize(side, bilinear))

    found: dict[str, Decoder] = {
        "Pillow, as the store": lambda data: np.asarray(resized(opened(data), STORE)),
        "Pillow, decoding alone": lambda data: np.asarray(opened(data)),
        "Pillow with draft": draft,
        "Pillow, reducing_gap=2": lambda data: np.asarray(
            opened(data).resize(side, bilinear, reducing_gap=2.0)
        ),
        "Pillow.reduce, then resize": reduced,
    }
    for module, more in (("torchvision", _torchvision), ("simplejpeg", _simplejpeg), ("cv2", _opencv)):
        if importlib.util.find_spec(module):
            found |= more(side)
    return found


def _torchvision(side: tuple[int, int]) -> dict[str, Decoder]:
    import torch
    from torchvision.io import decode_jpeg
    from torchvision.transforms.v2.functional import resize

    torch.set_num_threads(1)

    def decoded(data: bytes) -> torch.Tensor:
        return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8))

    def own(data: bytes) -> np.ndarray:
        return resize(decoded(data), list(side), antialias=True).permute(1, 2, 0).numpy()

    def pillow(data: bytes) -> np.ndarray:
        return _by_pillow(decoded(data).permute(1, 2, 0).contiguous().numpy())

    return {"torchvision": own, "torchvision, resized by Pillow": pillow}


def _simplejpeg(side: tuple[int, int]) -> dict[str, Decoder]:
    import simplejpeg

    return {"simplejpeg, resized by Pillow": lambda data: _by_pillow(simplejpeg.decode_jpeg(data, "RGB"))}


def _opencv(side: tuple[int, int]) -> dict[str, Decoder]:
    import cv2

    cv2.setNumThreads(1)

    def own(data: bytes) -> np.ndarray:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        return cv2.resize(pixels, side, interpolation=cv2.INTER_AREA)[..., ::-1]

    def pillow(data: bytes) -> np.ndarray:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        return _by_pillow(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))

    return {"OpenCV, INTER_AREA": own, "OpenCV, resized by Pillow": pillow}


def _by_pillow(pixels: np.ndarray) -> np.ndarray:
    return np.asarray(resized(Image.fromarray(pixels), STORE))


def measure(data: list[bytes], repeats: int) -> list[dict]:
    """Rates of all decoders and their pixels' difference to the first; one after another in every repeat."""
    found = decoders()
    expected, *_ = ([decode(one) for one in data] for decode in found.values())
    cpu: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(repeats):
        for name, decode in found.items():
            started = time.process_time()
            for one in data:
                decode(one)
            cpu[name].append(len(data) / (time.process_time() - started))
    rows = []
    for name, decode in found.items():
        pixels = [decode(one) for one in data]
        difference = [
            np.abs(a.astype(int) - b) for a, b in zip(pixels, expected, strict=True) if a.shape == b.shape
        ]
        rows.append(
            {
                "decoder": name,
                "per_cpu_second": statistics.median(cpu[name]),
                "min": min(cpu[name]),
                "max": max(cpu[name]),
                "largest_difference": int(np.max(difference)) if difference else None,
                "mean_difference": float(np.mean(difference)) if difference else None,
            }
        )
    return rows


def measure_store(data: list[bytes], count: int, workers: int, folder: Path) -> dict:
    """Rate of `build_store`, from an archive to the file in place, starting of processes included."""
    import pandas as pd

    from vsepp.data.store import build_store

    with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
        for number in range(count):
            archive.writestr(f"{number:06d}.jpg", data[number % len(data)])
    images = pd.DataFrame({"container": "images", "member": [f"{number:06d}.jpg" for number in range(count)]})
    spec = CorpusSpec("bench", "karpathy", {"images": str(folder / "pictures.zip")})
    before = _cpu_seconds()
    started = time.perf_counter()
    build_store(images, spec, STORE, folder / "out", folder / "state", workers)
    seconds = time.perf_counter() - started
    return {
        "images": count,
        "workers": workers,
        "per_second": count / seconds,
        "per_cpu_second": count / (_cpu_seconds() - before),
    }


def _cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photographs", type=Path, help="folder or zip archive of JPEG files")
    parser.add_argument("--pictures", type=int, default=60, help="different pictures")
    parser.add_argument("--quality", type=int, default=95)
    parser.add_argument("--subsampling", type=int, default=2, help="0: 4:4:4, 1: 4:2:2, 2: 4:2:0")
    parser.add_argument("--progressive", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--store", type=int, default=0, help="build a store of so many images instead")
    parser.add_argument("--workers", type=int, default=2, help="processes of the store")
    parser.add_argument("--folder", type=Path, help="where the store is built (default: a temporary folder)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    data = pictures(given.photographs, given.pictures, given.quality, given.subsampling, given.progressive)
    kilobytes = statistics.mean(map(len, data)) / 1000
    figures: dict = {"kilobytes": kilobytes, "pillow": PIL.__version__}
    print(
        f"{len(data)} pictures of {SIZE[0]}x{SIZE[1]}, {kilobytes:.0f} kB in the mean; Pillow {PIL.__version__}"
    )
    if given.store:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            figures["store"] = measure_store(data, given.store, given.workers, Path(folder))
        line = "store of {images}, {workers} workers: {per_second:.0f} images/s, {per_cpu_second:.0f} per CPU second"
        print(line.format(**figures["store"]))
    else:
        figures["decoders"] = measure(data, given.repeats)
        for row in figures["decoders"]:
            line = "{decoder:30} {per_cpu_second:5.0f} images per CPU second ({min:.0f}-{max:.0f})".format(
                **row
            )
            if row["largest_difference"] is not None:
                line += ", pixels differ by {largest_difference} at most, {mean_difference:.4f} in the mean".format(
                    **row
                )
            print(line)
    figures["load_average"] = os.getloadavg()[0]
    print(f"load {figures['load_average']:.1f}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
