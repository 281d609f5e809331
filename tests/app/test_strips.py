import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from nearkin.app import page, report
from nearkin.app.assessment import assess
from nearkin.app.baselines import raw_cosine
from nearkin.app.labels import match_labels
from nearkin.app.strips import SIDE, Picture, most_changed, strip_html
from nearkin.classifier import SoftVotingKNN
from nearkin.slne import SLNE


def image(colour):
    file = io.BytesIO()
    Image.new("RGB", (120, 60), colour).save(file, "PNG")
    return file.getvalue()


def test_pictures_are_embedded_and_marked():
    red, blue = Picture(image("red"), "<red>"), Picture(image("blue"), "blue")
    text = strip_html(red, {"raw cosine": [blue, red], "learned": [red]})
    assert re.findall('class="(right|wrong)"', text) == ["wrong", "right", "right"]
    assert "<red>" not in text
    pixels = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        for data in re.findall('base64,([^"]+)', text)
    ]
    assert {p.shape for p in pixels} == {(SIDE, SIDE, 3)}
    shades = [p.mean(axis=(0, 1)).argmax() for p in pixels]
    assert shades == [0, 2, 0, 0]  # query, then raw, then learned
    assert not re.findall(
        'class="(right|wrong)"', strip_html(red, {"a": [blue], "b": [red]}, mark=False)
    )


def test_a_missing_image_is_grey():
    missing = Picture("nowhere/at/all.png", "missing")
    assert strip_html(missing, {"a": [missing], "b": [missing]}).count("data:image/jpeg") == 3


def test_most_changed_against_counting():
    rng = np.random.default_rng(0)
    plain, learned = rng.random((2, 50, 6)) < 0.5
    gain = learned.sum(axis=1) - plain.sum(axis=1)
    for n, sign in ((7, 1), (-7, -1)):
        chosen = most_changed(plain, learned, n)
        assert (sign * gain[chosen] > 0).all()
        left = np.setdiff1d(np.arange(50), chosen)
        assert (sign * gain[chosen]).min() >= (sign * gain[left]).max()
    assert len(most_changed(plain, plain, 7)) == 0


def test_a_page_of_an_assessment(data, tmp_path):
    X, y = data
    model = SoftVotingKNN(SLNE.paper(n_neighbors=20), random_state=0).fit(X[:200], y[:200])
    result = assess(model, X[200:], y[200:])
    rows = sum(c["rows"] for c in result["per_class"])
    right = sum(c["rows"] * c["accuracy"] for c in result["per_class"])
    assert rows == 100
    assert right / rows == pytest.approx(result["top_1"])
    other = {"name": "<other>", "top1": 0.5, "top3": None, "per_class": 0.5,
             "per_class_top3": None, "seconds": 1.0, "rows": 50}  # fmt: skip
    page.write(tmp_path / "p.html", result, "a & b", [other])
    text = (tmp_path / "p.html").read_text()
    assert "a &amp; b" in text
    assert "&lt;other&gt;" in text
    assert f"{100 * result['top_1']:.1f} %" in text
    assert "of the training rows got: &lt;other&gt; 50." in text
    assert "before" not in text  # nothing is known of it
    assert page.strips_of(model, X[200:], y[200:], None, None) == ""


def test_before_is_the_raw_cosine_of_the_rows(data, tmp_path):
    X, y = data
    model = SoftVotingKNN(SLNE.paper(n_neighbors=20), random_state=0).fit(X[:200], y[:200])
    raw = raw_cosine().fit(X[:200], y[:200])
    result = assess(model, X[200:], y[200:], raw)
    assert result["top_1_raw"] == pytest.approx(raw.score(X[200:], y[200:]))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    near = np.argsort(-(unit[200:] @ unit[:200].T), axis=1)[:, :10]
    expected = (y[near] == y[200:, None]).mean()
    assert result["precision_at_10_raw"] == pytest.approx(expected, abs=1e-3)
    assert len(result["curves"]["raw"]["recall"]) == len(result["curves"]["learned"]["recall"])
    page.write(tmp_path / "p.html", result, "both")
    text = (tmp_path / "p.html").read_text()
    assert f"{100 * result['top_1_raw']:.1f} → {100 * result['top_1']:.1f}%" in text
    assert f"{result['map_raw']:.3f} → {result['map_learned']:.3f}" in text
    assert "<td>raw cosine</td>" in text


def test_labels_get_the_type_of_the_classes():
    assert match_labels([7, 12], np.array(["12", "7"])).tolist() == ["7", "12"]
    assert match_labels(["7", "x"], np.array(["7"])).tolist() == ["7", "x"]
    with pytest.raises(ValueError, match="none of the labels"):
        match_labels(["one"], np.array([1, 2]))


def test_a_bar_is_drawn_and_other_cells_are_escaped():
    text = report.table(["<a>"], [[report.bar(0.25)], ["<b>"]])
    assert "width:25.0%" in text
    assert "&lt;a&gt;" in text
    assert "&lt;b&gt;" in text
