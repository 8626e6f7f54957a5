"""Models of other libraries, with random weights, from pictures and captions to the printed recalls; adapters that do not fit."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch

from vsepp import adapters
from vsepp.cli import main
from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.given import read_given

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    tiny_models.write_pictures(folder)
    return folder


def command(adapter, model, pictures):
    places = ["--corpus", str(pictures / "corpus"), "--pictures", str(pictures / "pictures")]
    return ["evaluate", f"vsepp.adapters.{adapter}:Model", "--model", str(model), *places]


def assert_at_chance(said):
    assert "1 fold of 12 images, 36 captions in all, dot similarity" in said
    assert "protocol 5K: ranks like chance" in said


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_transformers(kind, pictures, tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    getattr(tiny_models, f"write_{kind}")(tmp_path / kind)
    out = tmp_path / "out"
    assert main([*command("transformers", tmp_path / kind, pictures), "--output", str(out)]) == 0
    assert_at_chance(capsys.readouterr().out)
    found = Embeddings.load(out / "embeddings.npz")
    assert (found.image_ids[0], found.caption_ids[1]) == (50, 10)

    from PIL import Image

    model = transformers.AutoModel.from_pretrained(tmp_path / kind).eval()
    processor = transformers.AutoProcessor.from_pretrained(tmp_path / kind)
    # One by one, of the whole model, whose output is normalised.
    image = Image.open(pictures / "pictures/p3.jpg")
    text = adapted_texts(pictures)[4]
    options = {"padding": "max_length", "max_length": 64} if kind == "siglip" else {}
    with torch.no_grad():
        output = model(**processor(images=[image], text=[text], return_tensors="pt", **options))
    np.testing.assert_allclose(found.image_embeddings[3], output.image_embeds[0], atol=1e-6)
    np.testing.assert_allclose(found.caption_embeddings[4], output.text_embeds[0], atol=1e-6)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["spec"]["given"] == "vsepp.adapters.transformers:Model"
    assert (manifest["spec"]["model"], set(manifest["inputs"])) == (str(tmp_path / kind), {"corpus"})


def adapted_texts(pictures):
    from vsepp.data.tables import read_tables

    return read_tables(pictures / "corpus")[1]["text"].tolist()


def test_sentence_transformers(pictures, tmp_path, capsys):
    pytest.importorskip("sentence_transformers")
    tiny_models.write_clip(tmp_path / "clip")
    assert main(command("sentence_transformers", tmp_path / "clip", pictures)) == 0
    assert_at_chance(capsys.readouterr().out)


def test_open_clip(pictures, tmp_path, capsys):
    open_clip = pytest.importorskip("open_clip")
    sight = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    config = {"embed_dim": 8, "vision_cfg": sight, "text_cfg": text}
    (tmp_path / "tiny-of-tests.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-of-tests.json")
    torch.manual_seed(0)
    assert main(command("open_clip", "tiny-of-tests", pictures)) == 0
    assert_at_chance(capsys.readouterr().out)


@pytest.mark.whole
def test_transformers_4_in_an_environment_of_its_own(pictures, tmp_path):
    uv = shutil.which("uv") or pytest.skip("needs uv")
    pytest.importorskip("torch")
    place = tmp_path / "site"
    install = [uv, "pip", "install", "--python", sys.executable, "--target", place, "transformers<5"]
    done = subprocess.run(install, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"transformers 4 cannot be installed: {done.stderr[-300:]}")
    python_path = os.pathsep.join([str(place), str(ROOT), str(ROOT / "tests/support")])
    for kind in ("clip", "siglip"):
        script = (
            "import sys, transformers, tiny_models; from pathlib import Path; from vsepp.cli import main\n"
            f"print(transformers.__version__); tiny_models.write_{kind}(Path({str(tmp_path / kind)!r}))\n"
            f"sys.exit(main({command('transformers', tmp_path / kind, pictures)!r}))"
        )
        environment = {**os.environ, "PYTHONPATH": python_path}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("4.")
        assert_at_chance(done.stdout)


class Fixed:
    """Unit vectors of a number that each file or text names, so any order can be told."""

    def embed_images(self, files):
        return self.rows([int(Path(file).stem[1:]) for file in files])

    def embed_captions(self, texts):
        return self.rows([len(text) for text in texts])

    def rows(self, numbers):
        return np.stack([np.cos(np.array(numbers) + 0.5), np.sin(numbers)], axis=1)


class Output:
    pooler_output = np.zeros((2, 2))


WRONG = {
    "shape": (lambda rows: rows[0], r"floating-point numbers \(12, d\), got float64 \(2,\)"),
    "rows": (lambda rows: rows[:-1], r"\(12, d\), got float64 \(11, 2\)"),
    "dtype": (lambda rows: rows.astype(np.int64), r"got int64 \(12, 2\)"),
    "NaN": (lambda rows: np.where(np.arange(len(rows))[:, None] == 7, np.nan, rows), "NaN or infinity in row 7"),
    "output": (lambda rows: Output(), "got a Output, whose pooler_output may be it"),
    "list": (lambda rows: rows.tolist(), "got a list"),
    "order": (lambda rows: rows[::-1], "rows in another order: expected item 11 last, got it at row 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_an_adapter_gives_is_checked(case):
    spoil, said = WRONG[case]
    call = Fixed().embed_images
    files = [f"p{number}.jpg" for number in range(12)]
    np.testing.assert_array_equal(adapters.in_batches("fixed", call, files), call(files).astype(np.float32))
    with pytest.raises(VseppError, match=f"^fixed: .*{said}"):
        adapters.in_batches("fixed", lambda batch: spoil(call(batch)), files)


def test_batches_must_have_one_number_of_dimensions(monkeypatch):
    monkeypatch.setattr(adapters, "BATCH", 4)
    with pytest.raises(VseppError, match=r"\(4, 2\), got float64 \(4, 3\)"):
        adapters.in_batches("x", lambda batch: np.ones((len(batch), 2 + (batch[0] > 3))), list(range(8)))


OWN = """
import numpy as np
class Model:
    def __init__(self, side): self.side = side
    def embed_images(self, files): return np.array([[1.0, int(f.stem[1:])] for f in files])
    def embed_captions(self, texts): return np.array([[float(self.side), len(t)] for t in texts])
def make(): return Model(1)
ready = Model(2)
nothing = 7
class Half:
    def embed_images(self, files): return None
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_adapter.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_adapter", None)


def test_an_own_adapter_is_a_class_a_function_or_an_object(own, pictures):
    for name, model, first in (("Model", "5", 5.0), ("make", None, 1.0), ("ready", None, 2.0)):
        found = read_given(f"own_adapter:{name}", pictures / "corpus", "test", pictures / "pictures", model)
        assert found.image_embeddings.tolist() == [[1.0, row] for row in range(12)]
        assert found.caption_embeddings[0].tolist() == [first, len(adapted_texts(pictures)[0])]


@pytest.mark.parametrize(
    ("name", "model", "said"),
    [
        ("nowhere_at_all:Model", None, "No module named 'nowhere_at_all'; expected module:name"),
        ("own_adapter:Modell", None, "has no attribute 'Modell'"),
        (
            "own_adapter:Model",
            None,
            "cannot be called without the name of a model: missing a required argument",
        ),
        ("own_adapter:make", "x", "cannot be called with the model x: too many"),
        ("own_adapter:ready", "x", "cannot be called with"),
        ("own_adapter:nothing", None, "7 is not a callable object"),
        ("own_adapter:Half", None, "expected a method embed_captions, Half has none"),
    ],
)
def test_what_is_no_adapter_is_refused(own, name, model, said):
    with pytest.raises(VseppError, match=f"^adapter {name}: ") as error:
        adapters.load(name, model)
    assert said in str(error.value)


def test_a_missing_package_is_said_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    sys.modules.pop("vsepp.adapters.open_clip", None)
    with pytest.raises(VseppError, match=r"pip install 'vsepp\[open-clip\]'"):
        adapters.load("vsepp.adapters.open_clip:Model", "ViT-B-32")


def test_pictures_must_be_there(own, pictures, tmp_path):
    (tmp_path / "some").mkdir()
    shutil.copy(pictures / "pictures/p0.jpg", tmp_path / "some")
    for folder, said in ((tmp_path / "some", r"missing pictures \(11 in all\): p1.jpg"), (None, "got None")):
        with pytest.raises(VseppError, match=said):
            read_given("own_adapter:make", pictures / "corpus", "test", folder)
    with pytest.raises(VseppError, match=r"^own_adapter:make: expected the tables"):
        read_given("own_adapter:make")
    with pytest.raises(VseppError, match=r"split .val. has no images"):
        read_given("own_adapter:make", pictures / "corpus", "val", pictures / "pictures")
