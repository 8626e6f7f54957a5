"""The page of `vsepp serve`: what it takes for a picture, and that text stays text."""

import contextlib
import io
import re
import socket
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from indexes import index, png
from markupsafe import escape
from PIL import Image
from raw_layouts import encoded

from vsepp.apps.serve import create_app

AWKWARD = [
    '<img src=x onerror="alert(1)">',
    "'; DROP TABLE \"&amp;",
    "كلب على العشب",
    "a dog 🐕‍🦺 {{ 7*7 }} {% x %}",
]


def client(**changes):
    return create_app([index(**changes)], ["localhost"]).test_client()


PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8))


def posted(data, name="a.jpg"):
    return client().post("/", data={"image": (io.BytesIO(data), name)})


@pytest.mark.parametrize(
    "data",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",  # would start Ghostscript
        png(1_000_000, 1_000_000),
    ],
)
def test_what_is_no_picture_is_refused_by_the_name_that_it_has(data):
    page = posted(data, "of a dog.jpg")
    assert page.status_code == 400 and "of a dog.jpg: " in page.text


def test_sentences_captions_and_names_are_shown_as_they_are():
    page = client(captions=AWKWARD * 3, file_names=AWKWARD + AWKWARD[:3])
    answers = [page.get("/", query_string={"text": text}).text for text in AWKWARD]
    picture = {"image": (io.BytesIO(encoded(PICTURE, "PNG")), AWKWARD[0])}
    for answer_page in (*answers, page.post("/", data=picture).text):
        assert all(f'<p dir="auto">{escape(text)}</p>' in answer_page for text in AWKWARD)
        assert "<img src=x" not in answer_page
    assert f'value="{escape(AWKWARD[0])}"' in answers[0]


def test_without_an_image_store_names_and_captions_are_shown():
    page = client(pixels=None)
    assert "0.jpg" in page.get("/?text=a+dog").text
    assert "/image/0/" not in page.get("/?text=a+dog").text
    assert page.get("/image/0/0").status_code == 404


def test_scripts_run_only_from_the_page_itself():
    headers = client().get("/").headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "same-origin"  # else the page's own form has no origin
    assert client().get("/page.js").mimetype == "text/javascript"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("192.0.2.7:80", 200),
        ("127.0.0.1.evil.example:80", 400),
    ],
)
def test_a_browser_may_call_the_server_by_an_address_or_a_known_name(host, status):
    assert client().get("/", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://localhost:8001"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_pictures_are_taken_from_the_page_itself_alone(headers, status):
    data = {"image": (io.BytesIO(encoded(PICTURE, "PNG")), "a.png")}
    assert client().post("/", data=data, headers=headers).status_code == status


def test_an_image_opens_large_with_images_like_it():
    page = client().get("/like/0/2").text
    assert 'src="/image/0/2?large"' in page and "More like this" in page
    assert 'href="/like/0/2"' not in page and "caption 3" in page
    assert client().get("/image/0/2?large").status_code == 200
    assert client().get("/like/0/7").status_code == client().get("/like/1/0").status_code == 404


def test_connections_that_send_half_a_request_keep_nobody_out_and_are_closed():
    """Of a server in a process of its own."""
    program = "from indexes import index; from vsepp.apps.serve import serve; serve([index()], port=0)"
    with contextlib.ExitStack() as stack:
        command = [sys.executable, "-c", program]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        page = re.match(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        address = ("127.0.0.1", int(page[1]))
        halves = [stack.enter_context(socket.create_connection(address)) for _ in range(100)]
        for half in halves:
            half.sendall(b"GET / HTTP/1.1\r\nHost: local")
        with urllib.request.urlopen(page[0], timeout=5) as answer:
            assert answer.status == 200
        for half in halves:
            half.settimeout(60)
            assert half.recv(1) == b""
