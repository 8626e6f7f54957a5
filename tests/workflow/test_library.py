"""What `import vsepp` offers, on models that the workflow trained."""

import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from processes import python
from projects import ROOT, RUNS
from rounding import assert_near

import vsepp
from vsepp.base import components
from vsepp.shipped.folders import shipped_models

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
TEMPLATES = ROOT / "reports/templates"

# What only the workflow needs; an installed wheel does without it.
_ABSENT = [
    "snakemake", "dvc", "yaml", "pandas", "pyarrow", "requests", "jinja2", "matplotlib", "filelock", "flask", "waitress",
]  # fmt: skip
_WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def opened(files):
    return [Image.open(io.BytesIO(data)) for data in files]


def kept(reproduced, run):
    return np.load(reproduced.model(run) / "embeddings.npz")


@pytest.fixture(scope="module")
def exported(reproduced, tmp_path_factory):
    """A run that was exported by the command and taken elsewhere."""
    out = tmp_path_factory.mktemp("elsewhere") / "model"
    reproduced.vsepp("export", reproduced.model(VSEPP), out)
    return out


@pytest.fixture
def copied(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "model")


@pytest.mark.parametrize("run", RUNS)
def test_embeddings_and_recalls_are_the_workflows(reproduced, test_split, run):
    model, expected = vsepp.load(reproduced.model(run), device="cpu"), kept(reproduced, run)
    images, captions = model.embed_images(opened(test_split[0])), model.embed_captions(test_split[1])
    assert_near(images, expected["image_embeddings"], 1e-6)
    assert_near(captions, expected["caption_embeddings"], 1e-6)
    owner = expected["caption_to_image"]
    metrics = json.loads((reproduced.evaluation(run) / "metrics.json").read_text())
    assert metrics
    for protocol, recalls in metrics.items():
        evaluation = vsepp.evaluate(
            expected["image_embeddings"], expected["caption_embeddings"], owner, protocol,
            fold_size=recalls["fold_size"], similarity=model.similarity,
        )  # fmt: skip
        assert evaluation.to_dict() == recalls


def test_scores_and_ranks_agree_with_a_loop(reproduced, test_split):
    model = vsepp.load(reproduced.model(VSE0))
    images, captions = model.embed_images(opened(test_split[0][:4])), model.embed_captions(test_split[1][:7])
    scores = model.scores(images, captions)
    assert_near(scores, [[i @ c for c in captions] for i in images], 1e-6)
    assert vsepp.rank(np.array([[0.1, 0.9, 0.9, 0.3]])).tolist() == [[1, 2, 3, 0]]
    assert vsepp.rank(scores.T, k=1)[:, 0].tolist() == scores.argmax(axis=0).tolist()


def test_a_picture_is_embedded_as_its_exif_data_say_that_it_is_seen(reproduced, test_split, tmp_path):
    model, (picture,) = vsepp.load(reproduced.model(VSEPP)), opened(test_split[0][:1])
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn clockwise
    picture.save(tmp_path / "turned.png", exif=exif)
    seen = picture.transpose(Image.Transpose.ROTATE_270)
    assert (model.embed_images([tmp_path / "turned.png"]) == model.embed_images([seen])).all()
    assert (model.embed_images([picture]) != model.embed_images([seen])).any()


def test_an_exported_model_is_the_same_without_data_and_workflow(exported, reproduced, test_split, tmp_path):
    (tmp_path / "a.jpg").write_bytes(test_split[0][0])
    script = f"""{_WITHOUT}
import numpy as np, vsepp
model = vsepp.load({str(exported)!r}, device="cpu")
images, captions = model.embed_images([{str(tmp_path / "a.jpg")!r}]), model.embed_captions({test_split[1][:3]!r})
np.savez({str(tmp_path / "embeddings.npz")!r}, images=images, captions=captions)
print(vsepp.evaluate(images, captions, [0, 0, 0]))
from vsepp.apps.cli import main
np.savez("e.npz", image_embeddings=images, caption_embeddings=captions, caption_to_image=np.zeros(3, int))
assert main(["evaluate", "e.npz"]) == 0
assert main(["query", {str(exported)!r}, "--text", "a red circle", "--pictures", "."]) == 0
assert main(["runs"]) == 1
assert main(["serve", {str(exported)!r}]) == 1
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("protocol 5K: 1 fold of 1 image,") == 2
    assert done.stdout.splitlines()[-1].split()[-1] == "a.jpg"
    assert "pip install 'vsepp[workflow]'" in done.stderr
    assert "pip install 'vsepp[serve]'" in done.stderr
    embeddings, expected = np.load(tmp_path / "embeddings.npz"), kept(reproduced, VSEPP)
    assert_near(embeddings["images"], expected["image_embeddings"][:1], 1e-6)
    assert_near(embeddings["captions"], expected["caption_embeddings"][:3], 1e-6)


def test_the_model_card_has_metadata_recalls_and_the_datas_licence(exported, reproduced):
    _, metadata, text = (exported / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(metadata)["datasets"] == ["scenes_coco"]
    measured = json.loads((reproduced.evaluation(VSEPP) / "metrics.json").read_text())
    assert measured
    for recalls in measured.values():
        for value in (recalls["rsum"], recalls["i2t"]["r1"], recalls["t2i"]["r1"]):
            (low, high) = re.search(rf"\| {value:.1f} \[([\d.]+), ([\d.]+)\] \|", text).groups()
            assert float(low) <= round(value, 1) <= float(high)
    assert "generated" in text[text.index("## Licence") :]
    page = html.unescape((reproduced.folder / "reports/tiny/paper/vsepp/index.html").read_text())
    kinds = {"loss": "max_of_hinges", "similarity": "dot", "text encoder": "gru", "reader": "coco"}
    for kind, name in kinds.items():
        source = components.describe(kind, name).citation
        assert source in text and source in page[page.index('id="sources"') :]


def test_a_model_with_a_trained_encoder_is_exported_whole(reproduced, test_split, tmp_path):
    reproduced.vsepp("export", reproduced.model(FT), tmp_path / "model")
    assert not (tmp_path / "model/encoder").exists()
    embeddings = vsepp.load(tmp_path / "model").embed_images(opened(test_split[0]))
    assert_near(embeddings, kept(reproduced, FT)["image_embeddings"], 1e-6)


def test_a_light_export_has_half_the_bytes_and_nearly_the_same_embeddings(
    exported, reproduced, test_split, tmp_path
):
    reproduced.vsepp("export", reproduced.model(VSEPP), tmp_path / "light", "--light")
    whole, light = (folder / "model.safetensors" for folder in (exported, tmp_path / "light"))
    assert light.stat().st_size < 0.55 * whole.stat().st_size
    rounded = vsepp.load(tmp_path / "light", device="cpu").embed_captions(test_split[1])
    assert_near(rounded, kept(reproduced, VSEPP)["caption_embeddings"], 0.005)
    assert (tmp_path / "light/encoder").is_dir()  # no package has the weights of this one
    assert "rounded to 16 bits" in (tmp_path / "light/README.md").read_text()


@pytest.mark.whole
def test_the_wheel_asks_an_exported_model_in_a_clean_environment(exported, test_split, tmp_path):
    uv = shutil.which("uv") or pytest.skip("needs uv")
    away, dist, env = tmp_path / "away", tmp_path / "dist", tmp_path / "env"
    away.mkdir()
    (away / "a.jpg").write_bytes(test_split[0][0])
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))
    }
    environment["PATH"] = f"{env / 'bin'}{os.pathsep}{os.defpath}"

    def output(*command, folder=away):
        command = list(map(str, command))
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    output(uv, "build", "--wheel", "--out-dir", dist, ROOT)
    (wheel,) = dist.glob("*.whl")
    output(uv, "venv", "--python", sys.executable, env)
    # In the project's folder: its settings say up to which day packages count.
    output(uv, "pip", "install", "--python", env / "bin/python", f"{wheel}[lite,serve]", folder=ROOT)

    assert output("vsepp", "--version") == f"vsepp {vsepp.__version__}\n"
    assert "query" in output("vsepp", "--help")
    script = (
        f"import vsepp; print(vsepp.__file__, vsepp.load({str(exported)!r}).embed_images(['a.jpg']).shape)"
    )
    file, shape = output("python", "-c", script).split(maxsplit=1)
    assert Path(file).is_relative_to(env) and shape == "(1, 128)\n"
    for model in (exported, *shipped_models()):
        hits = output("vsepp", "query", model, "--text", "a red circle", "--pictures", ".")
        assert hits.splitlines()[-1].split()[-1] == "a.jpg"
    templates = Path(file).parent / "report/templates"
    assert {path.name for path in templates.iterdir()} == {path.name for path in TEMPLATES.iterdir()}
    (facts,) = env.glob("lib/*/site-packages/vsepp-*.dist-info")
    licences = {
        path.relative_to(facts / "licenses") for path in (facts / "licenses").rglob("*") if path.is_file()
    }
    shipped = {Path("vsepp/shipped", name, "LICENSE.md") for name in shipped_models()}
    assert licences == {Path("LICENSE"), Path("LICENSES.md")} | shipped


def damage(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8] + b"\0" * 8)


def write_newer_layout(folder):
    (folder / "vsepp.json").write_text('{"layout": 99, "version": "9.1", "run": "x"}')


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (damage, r"model\.safetensors"),
        (write_newer_layout, r"vsepp 9\.1"),
        (lambda folder: (folder / "vocabulary.json").unlink(), r"vocabulary\.json"),
        (lambda folder: (folder / "manifest.json").unlink(), r"manifest\.json"),
        (lambda folder: shutil.rmtree(folder / "encoder"), "encoder="),
    ],
)
def test_a_folder_that_is_no_whole_model_is_refused(copied, change, named):
    change(copied)
    with pytest.raises(vsepp.VseppError, match=named):
        vsepp.load(copied)


def test_another_encoder_is_refused(copied, reproduced):
    other = next((reproduced.folder / "results/tiny/encoders").glob("resnet-*"), None) or copied
    with pytest.raises(vsepp.VseppError, match="not the encoder"):
        vsepp.load(copied, encoder=other)


def test_a_folder_that_is_there_is_not_written_over(reproduced, exported):
    assert "already exists" in reproduced.vsepp("export", reproduced.model(VSEPP), exported, status=1)


@pytest.mark.parametrize(
    ("call", "values", "named"),
    [
        ("embed_images", [__file__], r"test_library\.py"),
        ("embed_captions", ["a dog", " "], "caption 1"),
        ("embed_features", np.zeros((2, 3)), r"features: .*\(2, 3\)"),
    ],
)
def test_bad_input_is_named(reproduced, call, values, named):
    with pytest.raises(vsepp.VseppError, match=named):
        getattr(vsepp.load(reproduced.model(VSEPP)), call)(values)


def test_embeddings_of_another_size_or_the_wrong_way_round_are_refused(reproduced, test_split):
    model = vsepp.load(reproduced.model(VSEPP))
    with pytest.raises(vsepp.VseppError, match=r"captions: .*\(n, 128\)"):
        model.scores(np.zeros((2, 128)), np.zeros((2, 64)))
    images, captions = model.embed_images(opened(test_split[0][:3])), model.embed_captions(test_split[1][:6])
    for swapped in (
        lambda: model.scores(captions, images),
        lambda: model.scores(captions[:2], images[:2]),
        lambda: vsepp.evaluate(captions, images, [0, 0, 1]),
    ):
        with pytest.raises(vsepp.VseppError, match="the other way round"):
            swapped()
    # Plain arrays say nothing of what they are.
    assert model.scores(np.asarray(captions), np.asarray(images)).shape == (6, 3)


def test_captions_of_unknown_words_are_embedded_and_named(reproduced, caplog):
    embeddings = vsepp.load(reproduced.model(VSEPP)).embed_captions(["a red circle", "xqz zzq"])
    assert np.linalg.norm(embeddings, axis=1) == pytest.approx(1)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "caption 1" in warning and "xqz zzq" in warning


def test_importing_takes_no_torch():
    script = "import sys, vsepp; print('torch' in sys.modules, *dir(vsepp))"
    assert python(script).split() == ["False", *sorted(vsepp.__all__)]


def test_the_notebook_runs(monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch")
    monkeypatch.chdir(ROOT / "docs")
    cells = json.loads((ROOT / "docs/notebook.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["captions"][names["order"][0]] == "a man takes a photograph"
    nearest = [names["photographs"][row].stem for row in names["best"][:, 0]]
    assert nearest == ["cat", "stairs", "rocket", "coffee"]
    assert names["sheet"].size == (480, 640)
