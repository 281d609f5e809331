"""Bad requests are refused with a reason that names the field; the service goes on."""

import base64
import http.client
import io
import json
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from PIL import Image

from nearkin import SoftVotingKNN
from nearkin.app.finished_run import TrainedModel
from nearkin.serve.engine import open_engine
from nearkin.serve.gate import Limits
from nearkin.serve.reload import Holder
from serving import digits, engine_of, living

GOOD = digits(900, 901)[0][0].tolist()


def changed(place, value):
    return [[*GOOD[:place], value, *GOOD[place + 1 :]]]


BODIES = {  # body, status, field
    "no queries": ({}, 422, "vectors"),
    "two kinds": ({"rows": [0], "vectors": [GOOD]}, 422, "rows"),
    "empty": ({"vectors": []}, 422, "vectors"),
    "not a list": ({"vectors": 5}, 422, "vectors"),
    "one vector": ({"vectors": GOOD}, 422, "vectors[0]"),
    "short": ({"vectors": [GOOD, GOOD[:-1]]}, 422, "vectors[1]"),
    "long": ({"vectors": [GOOD * 2]}, 422, "vectors[0]"),
    "text": ({"vectors": changed(3, "1.5")}, 422, "vectors[0][3]"),
    "null": ({"vectors": changed(3, None)}, 422, "vectors[0][3]"),
    "flag": ({"vectors": changed(3, True)}, 422, "vectors[0][3]"),
    "large": ({"vectors": changed(0, 1e30)}, 422, "vectors"),
    "beyond floats": ({"vectors": changed(0, 10**400)}, 422, "vectors[0][0]"),
    "too many": ({"rows": [0] * 1001}, 422, "rows"),
    "negative row": ({"rows": [0, -1]}, 422, "rows[1]"),
    "row beyond": ({"rows": [300]}, 422, "rows[0]"),
    "huge row": ({"rows": [10**30]}, 422, "rows[0]"),
    "half a row": ({"rows": [0.5]}, 422, "rows[0]"),
    "no n": ({"rows": [0], "n": 0}, 422, "n"),
    "n beyond": ({"rows": [0], "n": 13}, 422, "n"),
    "n as text": ({"rows": [0], "n": "5"}, 422, "n"),
    "no such class": ({"rows": [0], "label": "eleven"}, 422, "label"),
    "no such similarity": ({"rows": [0], "similarities": ["best"]}, 422, "similarities[0]"),
    "unknown field": ({"rows": [0], "k": 5}, 422, "k"),
    "images": ({"images": ["aGVsbG8="]}, 409, "images"),
    "a list": ([1, 2], 422, None),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_the_field_is_named(live, name):
    body, status, field = BODIES[name]
    answer = live.client.post("/v1/search", json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert len(error["message"]) > 5
    assert field is None or error["field"] == field, error


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_numbers_that_are_none(live, text):
    body = '{"vectors": [[' + ",".join([text, *map(str, GOOD[1:])]) + "]]}"
    for path in ("/v1/search", "/v1/classify", "/v1/transform"):
        answer = send(live, path, body.encode())
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["field"] == "vectors[0][0]"


def send(live, path, body, kind="application/json"):
    return live.client.post(path, content=body, headers={"Content-Type": kind})


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b'{"rows": [0]', b"[" * 100_000, b"nonsense", b"\0"]
)
def test_what_is_no_json(live, body):
    answer = send(live, "/v1/search", body)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["message"]


def test_a_body_must_say_that_it_is_json(live):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = send(live, "/v1/search", b'{"rows": [0]}', kind)
        assert (answer.status_code, answer.json()["error"]["field"]) == (415, "Content-Type")


def test_a_large_body_is_refused_before_it_is_read(live):
    connection = http.client.HTTPConnection("127.0.0.1", live.socket.getsockname()[1])
    connection.putrequest("POST", "/v1/search")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(Limits().body + 1))
    connection.endheaders()  # and nothing after it
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["error"]["field"] == "body"
    connection.close()


def test_a_large_body_of_unknown_length_is_refused_while_it_is_read(model_file):
    def endless():
        for _ in range(300):
            yield b" " * 65_536

    with living(
        Holder(lambda: engine_of(model_file), model_file), limits=Limits(body=1 << 20)
    ) as live:
        try:
            answer = send(live, "/v1/search", endless())
        except httpx.WriteError:  # it may close before all is sent
            return
        assert answer.status_code == 413


def test_a_slow_body_ends(model_file):
    limits = Limits(seconds=0.2)
    with living(Holder(lambda: engine_of(model_file), model_file), limits=limits) as live:
        release = threading.Event()

        def slow():
            yield b'{"rows"'
            release.wait(3)
            yield b": [0]}"

        threading.Timer(1, release.set).start()
        try:
            answer = send(live, "/v1/search", slow())
        except httpx.TransportError:
            return
        assert answer.status_code == 408


class Slow:
    """A side whose searches wait until they are let go."""

    def __init__(self, engine):
        self.inner, self.go = engine.learned.near_stored, threading.Event()
        engine.learned.near_stored = self

    def __call__(self, rows):
        assert self.go.wait(30)
        return self.inner(rows)


def test_a_full_queue_says_when_to_come_again(model_file):
    holder = Holder(lambda: engine_of(model_file), model_file)
    slow = Slow(holder.engine)
    with living(holder, limits=Limits(queries=8)) as live, ThreadPoolExecutor(20) as clients:
        asked = [clients.submit(live.post, "/v1/search", rows=[0, 1, 2]) for _ in range(20)]
        while live.get("/metrics").text.count('status="503"') == 0:
            pass
        slow.go.set()
        answers = [one.result() for one in asked]
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 503}
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert refused.headers["Retry-After"] == "1"
    assert "try again" in refused.json()["error"]["message"]


def test_requests_in_flight_are_answered_when_the_service_stops(model_file):
    holder = Holder(lambda: engine_of(model_file), model_file)
    slow = Slow(holder.engine)
    with living(holder) as live, ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(live.post, "/v1/search", rows=[i]) for i in range(4)]
        while live.state.monitor.in_flight < 4:
            pass
        live.server.should_exit = True
        slow.go.set()
        assert [one.result().status_code for one in asked] == [200] * 4


def test_one_bad_vector_does_not_spoil_the_batch_of_others(tmp_path):
    """Numbers that pass the check of rows and fail only behind the preprocessing."""
    X, y = digits(0, 100)
    path = tmp_path / "model.safetensors"
    SoftVotingKNN(None, preprocess=None, n_neighbors=5, vote="top").fit(X, y).save(path)
    holder = Holder(lambda: engine_of(path), path)
    inner = holder.engine.learned.near_vectors

    def picky(vectors):
        if (vectors > 1e6).any():
            raise ValueError("vectors are too large")
        return inner(vectors)

    holder.engine.learned.near_vectors = picky
    large = [1e7] * 64
    with living(holder) as live, ThreadPoolExecutor(16) as clients:
        bodies = [[large] if i == 7 else [GOOD] for i in range(16)]
        asked = [clients.submit(live.post, "/v1/search", vectors=b, n=1) for b in bodies]
        found = [one.result().status_code for one in asked]
    assert found == [422 if i == 7 else 200 for i in range(16)]


# ---- images


class Brightness:
    """An encoder of images: a few numbers for each."""

    def encode(self, images):
        from nearkin.images.reading import ImageError, read_window

        rows, failed = np.zeros((len(images), 3), np.float32), {}
        for i, image in enumerate(images):
            try:
                rows[i] = read_window(image, (8, 8)).mean(axis=(0, 1)) / 255
            except ImageError as error:
                failed[i] = str(error)
        return rows, failed


def image(colour, size=(20, 12), kind="PNG"):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


def bomb(side):
    """A PNG of some hundred bytes that claims to be huge."""

    def chunk(name, data):
        return (struct.pack(">I", len(data)) + name + data
                + struct.pack(">I", zlib.crc32(name + data)))  # fmt: skip

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """A model of coloured images, two of whose files are damaged."""
    folder = tmp_path_factory.mktemp("gallery")
    rng, names, rows, labels = np.random.default_rng(0), [], [], []
    for label, base in (("red", (200, 30, 30)), ("green", (30, 200, 30)), ("blue", (30, 30, 200))):
        (folder / label).mkdir()
        for i in range(10):
            colour = tuple(int(c + rng.integers(-25, 25)) for c in base)
            path = folder / label / f"{i}.png"
            path.write_bytes(image(colour))
            names, labels = [*names, str(path)], [*labels, label]
            rows.append(np.array(colour) / 255)
    X = np.array(rows, np.float32)
    model = SoftVotingKNN(None, preprocess=None, n_neighbors=5, vote="softmax").fit(X, labels)
    (folder / "red" / "1.png").write_text("<svg onload=alert(1)>")
    (folder / "red" / "2.png").unlink()
    file = folder / "model.safetensors"
    model.save(file)
    trained = TrainedModel(model, Brightness(), names)
    with living(Holder(lambda: open_engine(trained, X), file)) as live:
        yield live


def encoded(data):
    return base64.b64encode(data).decode()


def test_an_uploaded_image_is_searched_and_classified(gallery):
    as_url = "data:image/jpeg;base64," + encoded(image((190, 40, 40), kind="JPEG"))
    for text in (encoded(image((190, 40, 40))), as_url):
        hits = gallery.ok("/v1/search", images=[text], n=4)["queries"][0]
        assert {hit["label"] for hit in hits["learned"]} == {"red"}
        assert {hit["label"] for hit in hits["raw"]} == {"red"}
        decision = gallery.ok("/v1/classify", images=[text])["queries"][0]
        assert decision["classes"][0]["label"] == "red"


@pytest.mark.parametrize(("data", "status"), [
    (b"no image", 422), (b"", 422), (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422),
    (b"%!PS-Adobe-3.0 EPSF-3.0", 422), (image("red")[:40], 422), (bomb(7_000), 413),
    (bomb(60_000), 413), (bomb(10), 422),
])  # fmt: skip
def test_files_that_are_no_image_or_a_bomb(gallery, data, status):
    answer = gallery.post("/v1/search", images=[encoded(image("red")), encoded(data)])
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["field"] == "images[1]"


def test_images_that_are_not_base64_or_too_many(gallery):
    assert gallery.post("/v1/search", images=["***"]).json()["error"]["field"] == "images[0]"
    assert gallery.post("/v1/search", images=["data:,x"]).status_code == 422
    many = gallery.post("/v1/search", images=[encoded(image("red"))] * 17)
    assert (many.status_code, many.json()["error"]["field"]) == (422, "images")


def test_pictures_are_made_anew_and_their_folders_are_not_told(gallery):
    picture = gallery.get("/v1/rows/0/picture")
    assert picture.headers["Content-Type"] == "image/jpeg"
    assert Image.open(io.BytesIO(picture.content)).size == (20, 12)
    assert gallery.get("/v1/rows/0").json()["name"] == "red/0.png"
    for row in (1, 2):  # an SVG file in disguise, and none at all
        missing = gallery.get(f"/v1/rows/{row}/picture")
        assert missing.status_code == 404
        assert "gallery" not in missing.text
