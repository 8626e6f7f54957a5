"""Questions to models that the workflow trained: on the command line, to a real server, and in a browser."""

import io
import json
import re
import shutil
import signal
import urllib.error
import urllib.request

import numpy as np
import pytest
from page_checks import require_good
from PIL import Image
from projects import RUNS
from rounding import assert_near

import vsepp
from vsepp.apps.cli import main
from vsepp.apps.query import open_index
from vsepp.apps.serve import serve

pytestmark = pytest.mark.workflow
VSE0, VSEPP = RUNS[:2]


@pytest.fixture
def alone(reproduced, tmp_path):
    """A run with what belongs to it in a folder of its own, for changes; folder of the run."""
    results = reproduced.folder / "results/tiny"
    here = tmp_path / "results/tiny"
    for kind in ("corpora", "encoders", "stores", f"paper/runs/{VSEPP}"):
        shutil.copytree(results / kind, here / kind)
    return here / f"paper/runs/{VSEPP}/seed-0"


def asked(capsys, run, *question):
    """Answers of `vsepp query --json`."""
    assert main(["query", str(run), *map(str, question), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["answers"]


def test_answers_are_what_the_kept_embeddings_rank_first(reproduced, test_split, tmp_path, capsys):
    (photograph, *_), captions = test_split
    kept = np.load(reproduced.model(VSEPP) / "embeddings.npz")
    images = asked(capsys, reproduced.model(VSEPP), "--text", captions[3], "-k", 7)
    scores = kept["image_embeddings"] @ kept["caption_embeddings"][3]
    assert_near([hit["score"] for hit in images], sorted(scores, reverse=True)[:7], 1e-4)
    assert [hit["rank"] for hit in images] == list(range(1, 8))
    (tmp_path / "a.jpg").write_bytes(photograph)
    (text,) = asked(capsys, reproduced.model(VSEPP), "--image", tmp_path / "a.jpg", "-k", 1)
    scores = kept["caption_embeddings"] @ kept["image_embeddings"][0]
    assert_near([text["score"], scores[captions.index(text["caption"])]], [scores.max()] * 2, 1e-4)


def test_an_image_is_named_with_its_own_file_and_caption(reproduced, test_split):
    index = open_index(reproduced.model(VSEPP))
    photographs, captions = test_split
    kept = np.load(reproduced.model(VSEPP) / "embeddings.npz")
    for hit in index.images_for(captions[0], k=5):
        assert captions.index(hit.caption) == np.flatnonzero(kept["caption_to_image"] == hit.row)[0]
        original = Image.open(io.BytesIO(photographs[hit.row])).convert("RGB")
        shown = index.picture(hit.row)
        assert np.abs(np.asarray(original.resize(shown.size), int) - np.asarray(shown)).mean() < 12


def test_the_table_is_for_people_and_unknown_words_are_named(reproduced, capsys, caplog):
    assert main(["query", str(reproduced.model(VSEPP)), "--text", "a red xqzzy", "-k", "2"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["rank", "score", "image", "id", "file", "caption"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert "xqzzy" in caplog.text


def test_an_exported_model_is_asked_about_a_folder_of_pictures(reproduced, test_split, tmp_path, capsys):
    reproduced.vsepp("export", reproduced.model(VSEPP), tmp_path / "model")
    for number, photograph in enumerate(test_split[0][:4]):
        (tmp_path / "pictures/sub").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"pictures/sub/{number}.jpg").write_bytes(photograph)
    hits = asked(
        capsys, tmp_path / "model", "--text", "a red circle", "--pictures", tmp_path / "pictures", "-k", 9
    )
    assert {hit["file_name"] for hit in hits} == {f"sub/{number}.jpg" for number in range(4)}
    model = vsepp.load(tmp_path / "model", device="cpu")
    best = model.embed_images([tmp_path / "pictures" / hits[0]["file_name"]])
    scores = model.scores(best, model.embed_captions(["a red circle"]))
    assert hits[0]["score"] == pytest.approx(scores[0, 0], rel=1e-5)
    assert main(["query", str(tmp_path / "model"), "--text", "a red circle"]) == 1
    assert "no test images and captions" in capsys.readouterr().err


def test_a_picture_is_asked_about_a_file_of_captions(reproduced, test_split, tmp_path, capsys):
    model = reproduced.model(VSEPP)
    (tmp_path / "a.jpg").write_bytes(test_split[0][0])
    (tmp_path / "captions.txt").write_text("a red circle\n\n  a blue square \na green heart\n")
    question = ("--image", tmp_path / "a.jpg", "--captions", tmp_path / "captions.txt")
    hits = asked(capsys, model, *question)
    loaded = vsepp.load(model, device="cpu")
    texts = ["a red circle", "a blue square", "a green heart"]
    scores = loaded.scores(loaded.embed_images([tmp_path / "a.jpg"]), loaded.embed_captions(texts))[0]
    assert [hit["caption"] for hit in hits] == [texts[row] for row in np.argsort(-scores)]
    assert_near([hit["score"] for hit in hits], sorted(scores, reverse=True), 1e-5)
    assert main(["query", str(model), *map(str, question)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["rank", "score", "caption"]


@pytest.mark.parametrize(
    ("question", "named"),
    [
        (["--text", "a dog", "--pictures", "nowhere"], "nowhere"),
        (["--text", "a dog", "--captions", "captions.txt"], "--pictures"),
        (["--image", "captions.txt", "--captions", "captions.txt"], "captions.txt"),
        (["--image", "a.jpg", "--captions", "long.txt"], "long.txt, line 2: 1,001"),
    ],
)
def test_what_a_question_looks_in_is_checked(reproduced, tmp_path, monkeypatch, capsys, question, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "captions.txt").write_text("a red circle\n")
    (tmp_path / "long.txt").write_text("a\n" + "a" * 1001)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    assert main(["query", str(reproduced.model(VSEPP)), *question]) == 1
    assert named in capsys.readouterr().err


def change(path):
    path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda run: (run / "embeddings.npz").unlink(), "test images and captions"),
        (lambda run: change(run / "model.safetensors"), "model.safetensors"),
        (lambda run: shutil.rmtree(run.parents[3] / "corpora"), "corpus"),
    ],
)
def test_what_does_not_verify_is_not_asked(alone, damage, named):
    damage(alone)
    with pytest.raises(vsepp.VseppError, match=named):
        open_index(alone)


def test_without_the_image_store_there_are_answers_but_no_thumbnails(alone):
    shutil.rmtree(alone.parents[3] / "stores")
    index = open_index(alone)
    assert index.images_for("a red circle")
    assert index.picture(0) is None


@pytest.fixture(scope="module")
def served(reproduced):
    """Address of a server of two runs."""
    models = [reproduced.model(run) for run in (VSE0, VSEPP)]
    # A process that was started in the background may ignore interrupts, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = reproduced.start("vsepp", "serve", *models, "--port", 0)
    signal.signal(signal.SIGINT, before)
    yield re.match(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
    assert process.poll() is None, process.stdout.read()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def fetched(address, data=None, **headers):
    """Status and text of a page."""
    request = urllib.request.Request(address, data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def upload(address, data):
    """Status and page of an uploaded file."""
    head = '--x\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n'
    body = head.encode() + data + b"\r\n--x--\r\n"
    return fetched(address, body, **{"Content-Type": "multipart/form-data; boundary=x"})


def test_a_sentence_shows_images_of_both_runs(served, reproduced):
    status, page = fetched(f"{served}?text=a+red+circle")
    assert status == 200
    assert page.count('<ol class="images">') == 2
    for number, run in enumerate((VSE0, VSEPP)):
        index = open_index(reproduced.model(run))
        rows = [hit.row for hit in index.images_for("a red circle", k=12)]
        assert [int(row) for row in re.findall(rf'src="/image/{number}/(\d+)"', page)] == rows
        with urllib.request.urlopen(f"{served}image/{number}/{rows[0]}") as answer:
            assert Image.open(answer).size == index.picture(rows[0]).size


def test_a_picture_shows_captions_of_both_runs(served, reproduced, test_split):
    status, page = upload(served, test_split[0][0])
    assert status == 200
    assert page.count('<ol class="captions">') == 2
    hits = open_index(reproduced.model(VSEPP)).captions_for(Image.open(io.BytesIO(test_split[0][0])), k=12)
    assert all(hit.caption in page for hit in hits)


def test_a_large_picture_is_answered(served):
    stream = io.BytesIO()
    Image.effect_noise((4000, 4000), 50).save(stream, "BMP")
    assert 15 << 20 < len(stream.getvalue()) < 20 << 20
    status, page = upload(served, stream.getvalue())
    assert (status, page.count('<ol class="captions">')) == (200, 2)


@pytest.mark.parametrize(
    ("request_to", "status", "named"),
    [
        (lambda at: upload(at, b"no picture"), 400, "a.jpg"),
        (lambda at: fetched(at, b"image=1"), 400, "picture"),
        (lambda at: fetched(f"{at}?text={'a' * 1001}"), 400, "1,001"),
    ],
)
def test_a_bad_request_gets_a_sentence_and_the_server_lives_on(served, request_to, status, named):
    answered, page = request_to(served)
    assert answered == status and named in page
    assert fetched(served)[0] == 200


def test_a_port_in_use_is_named(served, reproduced):
    port = int(served.rstrip("/").rpartition(":")[2])
    with pytest.raises(vsepp.VseppError, match=f"127.0.0.1:{port}: .*in use"):
        serve([open_index(reproduced.model(VSEPP))], port=port)


@pytest.fixture(params=[(1400, "light"), (390, "dark")], ids=str)
def opened(browser, served, request):
    """The page in a window of a computer and of a phone; nothing may go wrong in it."""
    width, scheme = request.param
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(served)
    yield page
    page.close()
    assert not wrong


@pytest.mark.browser
def test_a_sentence_is_asked_by_keyboard(opened):
    require_good(opened)
    opened.keyboard.type("a red circle")
    opened.keyboard.press("Enter")
    opened.wait_for_url("**/?text=a+red+circle")
    assert opened.locator("ol.images").count() == 2
    assert opened.locator("ol.images >> nth=0").locator("li").count() == 12
    assert opened.locator("ol.images img").count() == 24
    require_good(opened)


@pytest.mark.browser
def test_a_picture_is_uploaded(opened, test_split, tmp_path):
    (tmp_path / "a.jpg").write_bytes(test_split[0][0])
    opened.get_by_label("A picture finds captions").set_input_files(tmp_path / "a.jpg")
    opened.get_by_role("button", name="Find captions").click()
    opened.locator("ol.captions").first.wait_for()
    assert opened.locator("ol.captions li").count() == 24
    assert opened.get_by_alt_text("The uploaded picture").count() == 1
    require_good(opened)


@pytest.mark.browser
def test_a_picture_is_dropped(opened, test_split):
    opened.evaluate(
        """bytes => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([new Uint8Array(bytes)], "dropped.jpg", {type: "image/jpeg"}));
            document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: dropped, bubbles: true, cancelable: true}));
        }""",
        list(test_split[0][1]),
    )
    opened.locator("ol.captions").first.wait_for()
    assert "dropped.jpg" in opened.locator("figure.asked").inner_text()


@pytest.mark.browser
def test_a_file_that_is_too_large_is_named_before_it_is_sent(opened, tmp_path):
    (tmp_path / "large.jpg").write_bytes(b"0" * (21 << 20))
    chosen = opened.get_by_label("A picture finds captions")
    chosen.set_input_files(tmp_path / "large.jpg")
    assert "more than 20 MB" in chosen.evaluate("input => input.validationMessage")
    opened.get_by_role("button", name="Find captions").click()
    assert opened.locator("ol.captions").count() == 0


@pytest.mark.browser
def test_sentences_need_no_script(browser, served):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served)
    page.get_by_label("A sentence finds images").fill("a red circle")
    page.get_by_role("button", name="Find images").click()
    page.locator("ol.images").first.wait_for()
    context.close()
