"""Load a trained model, embed, score, rank and evaluate; `import vsepp` offers all of it.

model = vsepp.load("flickr8k")
images = model.embed_images(["a.jpg", "b.jpg"])
captions = model.embed_captions(["two dogs on grass"])
best = vsepp.rank(model.scores(images, captions).T, k=1)  # the image nearest to each caption
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from PIL import Image

from vsepp.base.errors import VseppError
from vsepp.base.files import path_of, shortly
from vsepp.base.machine import present_device
from vsepp.base.progress import track
from vsepp.base.publish import MODEL_FILE, spec_of
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import Component
from vsepp.data.captions import TOKENIZERS, VOCABULARY_FILE, Tokens, Vocabulary
from vsepp.data.pictures import Picture, read_picture, resized
from vsepp.data.store import WholeImages
from vsepp.evaluation.best import best_of_blocks
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.encode import (
    BATCH,
    embed_captions,
    embed_images,
    evaluation_mode,
)
from vsepp.evaluation.evaluate import Evaluation
from vsepp.evaluation.evaluate import evaluate as evaluate_test_set
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import DEFAULT_FOLD_SIZE, checked_count, own_captions
from vsepp.features.frozen import features_of
from vsepp.features.images import CentreCrops, EvalImages, Features
from vsepp.models.encoder import ImageEncoder
from vsepp.models.folder import frozen_encoder, layout_of, require_files
from vsepp.models.joint import JointEmbedding, load_joint
from vsepp.shipped.folders import model_folder

log = logging.getLogger("vsepp")

# Pictures decoded before any of them is encoded: bounds the memory for any number of pictures.
AT_ONCE = 4 * BATCH


class _Embeddings(np.ndarray):
    """An array whose type says what it embeds; its rows keep the type, and results computed from it are plain arrays."""

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain


class ImageEmbeddings(_Embeddings):
    """Embeddings of images, `(n, d)`: `Model.scores` does not take them for captions."""


class CaptionEmbeddings(_Embeddings):
    """Embeddings of captions, `(m, d)`: `Model.scores` does not take them for images."""


class Model:
    """A trained model: image encoder, text encoder, and the joint space of both. Made by `load`.

    Embeddings equal the test embeddings of the workflow's training, up to rounding. They are equal bit for bit on the same machine
    with the same number of threads, for the same images in the same order, if these fill at least one of the encoder's batches
    (128 crops; on a CPU 16 if crops have more than 64 pixels a side).
    """

    def __init__(
        self,
        run: RunSpec,
        joint: JointEmbedding,
        vocabulary: Vocabulary,
        encoder: ImageEncoder | None,
        device: torch.device,
    ) -> None:
        self.run = run
        """The run's parameters."""
        self.vocabulary = vocabulary
        self.device = device
        self.joint = joint.to(device)
        """The text encoder and the maps into the joint space; also the image encoder, if it was fine-tuned."""
        self.encoder = encoder and encoder.to(device).eval()
        """The frozen image encoder, if it is not in `joint`."""

    @property
    def dim(self) -> int:
        """Size of the joint space, d."""
        return self.run.model.joint_dim

    @property
    def similarity(self) -> Component:
        """Name and options of the similarity that `scores` computes; give it to `vsepp.evaluate`."""
        return self.run.model.similarity

    def __repr__(self) -> str:
        run = self.run
        return (
            f"vsepp.Model({run.id!r}: {run.system}, {run.encoder.architecture}, {run.model.text.name} of "
            f"{len(self.vocabulary)} words, {self.dim} dimensions, {self.device})"
        )

    def embed_images(self, images: Iterable[Picture]) -> ImageEmbeddings:
        """Embed images, resized and cropped as the run's test images: the centre crop, or ten crops (10C).

        Parameters
        ----------
        images
            Paths, bytes of files, PIL pictures, or uint8 arrays or tensors `(height, width)`, `(height, width, 3)` or `(height, width, 4)`. Grey
            pictures are taken as RGB, what is transparent lies on white, and a picture is turned as its EXIF data say, unlike the
            photographs of a data set, for which the run's `exif_orientation` decides.

        Returns
        -------
        ImageEmbeddings
            float32 `(n, d)`, of unit length, except for VSE0, whose image embeddings are not normalised.

        Raises
        ------
        VseppError
            If there are no images, if one cannot be read, and if the model was trained on published features.
        """
        pictures = _listed(images, "images", "[path]")
        if self.encoder is None and self.joint.encoder is None:
            raise VseppError(
                f"run {self.run.id} was trained on published features, whose encoder is not available; embed such "
                "features with embed_features"
            )
        parts = range(0, len(pictures), AT_ONCE)
        shown: Iterable[int] = parts
        if len(parts) > 1:
            shown = track(parts, len(pictures), "embedding", "image", per_item=AT_ONCE)
        # A part is a whole number of batches, so the maps into the joint space see whole batches.
        embedded = [self._embed_pictures(pictures[start : start + AT_ONCE], start) for start in shown]
        return np.concatenate(embedded).view(ImageEmbeddings)

    def _embed_pictures(self, pictures: Sequence[Picture], first: int) -> np.ndarray:
        with ThreadPoolExecutor() as pool:
            stored = list(pool.map(self._pixels, range(first, first + len(pictures)), pictures))
        squashed = self.run.eval_store.resize == "squash"
        pixels = np.stack(stored) if squashed else WholeImages.in_memory(stored)
        crop = self.run.eval_crop
        if self.encoder is None:
            return self._through_joint(len(pixels), CentreCrops(pixels, crop, self.device))
        features = features_of(pixels, self.encoder, np.arange(len(pixels)), crop, self.device, fill=False)
        return self.embed_features(features if self.joint.image_pooling else features[:, 0])

    def _pixels(self, number: int, picture: Picture) -> np.ndarray:
        """A picture as a corpus stores it, uint8 `(height, width, 3)`."""
        name = str(picture) if isinstance(picture, str | os.PathLike) else f"image {number}"
        if isinstance(picture, torch.Tensor):
            picture = _array(picture, name)
        return resized(read_picture(picture, name, upright=True).rgb, self.run.eval_store, name)

    def embed_features(self, features: np.ndarray) -> np.ndarray:
        """Map features of the model's frozen image encoder into the joint space: float32 `(n, d)`.

        Parameters
        ----------
        features
            `(n, D_φ)`, or sets of k vectors, `(n, k, D_φ)`, where the run pools these.

        Raises
        ------
        VseppError
            If the shape is wrong, or if the model's encoder was fine-tuned: then it embeds only images.
        """
        if self.joint.encoder is not None:
            raise VseppError(f"run {self.run.id}: its encoder is fine-tuned: it embeds images, not features")
        features = _array(features, "features")
        wanted = self.joint.feature_dim
        sets = self.joint.image_pooling is not None
        if features.ndim != 2 + sets or features.shape[-1] != wanted or 0 in features.shape:
            shape = f"(n, k, {wanted})" if sets else f"(n, {wanted})"
            raise VseppError(f"features: expected shape {shape}, got {features.shape}")
        features = np.ascontiguousarray(features, np.float32)
        return self._through_joint(len(features), Features(features if sets else features[:, None], sets))

    def _through_joint(self, count: int, images: EvalImages) -> np.ndarray:
        with evaluation_mode(self.joint, self.device):
            return embed_images(self.joint, images, np.arange(count), self.device)

    def embed_captions(self, captions: Iterable[str]) -> CaptionEmbeddings:
        """Embed captions, split into words as the training captions were.

        Parameters
        ----------
        captions
            Sentences. Words that are not in the vocabulary count as unknown words; a warning names captions that have only
            unknown words.

        Returns
        -------
        CaptionEmbeddings
            float32 `(n, d)`, of unit length.

        Raises
        ------
        VseppError
            If there are no captions, or one is empty or not a string.
        """
        texts = _listed(captions, "captions", '["two dogs on grass"]')
        words, unknown = [], {self.vocabulary.index[token] for token in self.vocabulary.special[1:4]}
        for number, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise VseppError(f"caption {number}: expected a sentence, got {text!r}")
            words.append(self.vocabulary.encode(text))
            if set(words[-1]) <= unknown:
                log.warning("caption %d, %r: the model knows none of its words", number, text)
        with evaluation_mode(self.joint, self.device):
            embedded = embed_captions(
                self.joint, Tokens.from_lists(words), np.arange(len(words)), self.device
            )
        return embedded.view(CaptionEmbeddings)

    def scores(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Similarity of every image and caption: embeddings `(n, d)` and `(m, d)` → `scores[image, caption]`, `(n, m)`.

        Raises
        ------
        VseppError
            If the embeddings do not have the model's size, or are the wrong way round.
        """
        _require_sides(images, captions)
        sides = {"images": _array(images, "images"), "captions": _array(captions, "captions")}
        for name, embeddings in sides.items():
            if embeddings.ndim != 2 or embeddings.shape[1] != self.dim:
                raise VseppError(
                    f"{name}: expected embeddings (n, {self.dim}) of run {self.run.id}, got {embeddings.shape}"
                )
        with torch.inference_mode():
            on_device = (
                torch.as_tensor(side, dtype=torch.float32, device=self.device) for side in sides.values()
            )
            return self.joint.scores(*on_device).cpu().numpy()


def load(
    folder: str | os.PathLike[str], *, encoder: str | os.PathLike[str] | None = None, device: str = "auto"
) -> Model:
    """Load a trained model: one that comes with the package, a run's folder, or a folder that `vsepp export` wrote.

    Parameters
    ----------
    folder
        `flickr8k`, or a folder such as `results/mini/paper/runs/coco-vse0-1c/seed-0`.
    encoder
        Folder of the frozen image encoder. By default `encoder/` of an exported folder, or the run's own encoder below
        `results/<preset>/encoders`.
    device
        `cpu`, `cuda`, `cuda:1`, ...; `auto` is a GPU if there is one, else the CPU.

    Raises
    ------
    VseppError
        If the folder holds no trained run, was changed or damaged, or was exported by a newer version, or if its encoder
        is not found.
    """
    folder = model_folder(path_of(folder, "folder"))
    layout_of(folder)  # refuses a newer one
    require_files(folder)
    run = spec_of(folder)
    vocabulary = Vocabulary.read(folder)
    if vocabulary.tokenizer != (here := TOKENIZERS[vocabulary.kind]):
        log.warning(
            "%s: its words were split by %r, captions are split by %r here",
            folder / VOCABULARY_FILE, vocabulary.tokenizer, here,
        )  # fmt: skip
    on = present_device(str(device))
    network = frozen_encoder(run, folder, None if encoder is None else path_of(encoder, "encoder"))
    joint = load_joint(run, folder / MODEL_FILE, len(vocabulary))
    return Model(run, joint, vocabulary, network, on)


def rank(scores: np.ndarray | Iterator[np.ndarray], k: int | None = None) -> np.ndarray:
    """Rank the candidates of each query, best first.

    Parameters
    ----------
    scores
        `(queries, candidates)`: `Model.scores` to find captions for images, its transpose to find images for captions. Or an iterator
        of such matrices, each with the next candidates, for more candidates than fit in memory.
    k
        How many candidates to keep; all by default. Candidates of equal score keep their order.

    Returns
    -------
    np.ndarray
        int64 `(queries, k)`, columns of `scores`.

    Raises
    ------
    VseppError
        If the shape is wrong, scores are NaN, there are no scores, or k is no whole number of at least 1.
    """
    k = sys.maxsize if k is None else checked_count(k, "k")
    blocks = scores if isinstance(scores, Iterator) else iter([scores])
    ranked = best_of_blocks(map(_checked_scores, blocks), k)[1]
    if ranked.ndim != 2:
        raise VseppError("scores: expected at least one matrix, got an iterator of none")
    return ranked


def _checked_scores(scores: np.ndarray) -> np.ndarray:
    scores = _array(scores, "scores")
    if scores.ndim != 2:
        raise VseppError(f"scores: expected shape (queries, candidates), got {scores.shape}")
    return scores


def evaluate(
    images: np.ndarray,
    captions: np.ndarray,
    caption_to_image: np.ndarray | Sequence[int],
    protocol: str = "5K",
    *,
    fold_size: int = DEFAULT_FOLD_SIZE,
    similarity: str | Component = "dot",
) -> Evaluation:
    """Compute R@K, Med r, Mean r and rsum of any model's embeddings, as in the tables.

    Parameters
    ----------
    images, captions
        Embeddings `(n, d)` and `(m, d)`, floating-point.
    caption_to_image
        `(m,)`, the row of each caption's image.
    protocol
        `1K` (the first fold), `5x1K` (the mean over five folds) or `5K` (all images).
    fold_size
        Images per fold of `1K` and `5x1K`.
    similarity
        `dot` (inner product), or a model's `similarity`.

    Returns
    -------
    Evaluation
        Has `metrics.i2t.r1` (caption retrieval), `metrics.t2i.r1` (image retrieval), `metrics.rsum` and so on.

    Raises
    ------
    VseppError
        Naming the array and row that is wrong, or the protocol that needs more images.
    """
    _require_sides(images, captions)
    chosen = Component(similarity) if isinstance(similarity, str) else similarity
    if not isinstance(chosen, Component):
        raise VseppError(f"similarity: expected a name, or a model's `similarity`, got {shortly(similarity)}")
    scores = EmbeddingScores(_array(images, "images"), _array(captions, "captions"), chosen)
    tested = TestSet(scores, _array(caption_to_image, "caption_to_image"))
    (evaluation,) = evaluate_test_set(tested, [own_captions(tested.caption_to_image, protocol, fold_size)])
    return evaluation


def _require_sides(images: object, captions: object) -> None:
    """Refuse embeddings of captions as images, and the reverse."""
    if isinstance(images, CaptionEmbeddings) or isinstance(captions, ImageEmbeddings):
        raise VseppError("expected embeddings of images, then of captions; got them the other way round")


def _array(value: Any, name: str) -> np.ndarray:
    """An argument as an array; a tensor, or rows that are tensors, of any real type, with or without gradient, on any device.

    Raises
    ------
    VseppError
        With type and shape of what holds no real numbers: `None`, text, a meta, quantised or nested tensor, rows of different lengths.
    """
    if isinstance(value, torch.Tensor):
        if value.is_nested or value.is_quantized:
            kind = "nested" if value.is_nested else "quantised"
            raise VseppError(
                f"{name}: expected a plain tensor, got a {kind} one: give its padded or dequantised values"
            )
        if value.is_meta:
            raise VseppError(
                f"{name}: expected values, got a meta tensor {tuple(value.shape)}, which has none"
            )
        value = value.detach().to_dense().cpu().resolve_conj().resolve_neg()
        plain = not value.is_floating_point() or value.dtype in (torch.float16, torch.float32, torch.float64)
        value = (value if plain else value.float()).numpy()
    elif isinstance(value, list | tuple) and any(isinstance(row, torch.Tensor) for row in value):
        value = [_array(row, name) for row in value]
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise VseppError(f"{name}: expected an array, got rows of different lengths") from error
    if array.dtype.kind not in "fiu":
        kind = "None" if value is None else f"{type(value).__name__} {array.shape} of {array.dtype}"
        raise VseppError(f"{name}: expected an array of real numbers, got {kind}")
    return array


def _listed(items: Iterable[Any], what: str, such_as: str) -> list[Any]:
    """Items as a list, with at least one item. An array is one picture, unless it holds text, or pictures one below the other."""
    expected = f"{what}: expected a list, such as {such_as}"
    if isinstance(items, torch.Tensor):
        items = _array(items, what)
    if isinstance(items, np.ndarray):
        text = items.dtype.kind in "OU"
        if items.ndim < (1 if text else 4):
            raise VseppError(f"{expected}, got one array {tuple(items.shape)}")
    if isinstance(items, str | bytes | os.PathLike | Image.Image) or not isinstance(items, Iterable):
        raise VseppError(f"{expected}, got {'None' if items is None else f'one {type(items).__name__}'}")
    listed = list(items)
    if not listed:
        raise VseppError(f"{what}: there are none; expected at least one")
    return listed
