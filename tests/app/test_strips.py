import base64
import io
import re
import sys

import numpy as np
import pytest
from PIL import Image

from nearkin.app import demo, page, report
from nearkin.app.assessment import assess
from nearkin.app.baselines import raw_cosine
from nearkin.app.labels import match_labels
from nearkin.app.strips import SIDE, Picture, most_changed, strip_html
from nearkin.classifier import SoftVotingKNN
from nearkin.slne import SLNE


def image(colour, size=(120, 60)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
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
    assert {p.shape for p in pixels} == {(60, 120, 3)}  # whole, and never larger than they are
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
    assert f"<td>{100 * result['top_1']:.1f}</td>" in text
    assert "<td>–</td></tr>" in text  # of a fit that nobody has timed
    assert "of the training rows got: &lt;other&gt; 50." in text
    assert "before" not in text.split("</style>")[1]  # nothing is known of it
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
    page.write(tmp_path / "p.html", result, "both", seconds=1.25)
    text = (tmp_path / "p.html").read_text()
    assert f"{100 * result['top_1_raw']:.1f} → {100 * result['top_1']:.1f}%" in text
    assert f"{result['map_raw']:.3f} → {result['map_learned']:.3f}" in text
    assert "<td>raw cosine</td>" in text
    assert "<td>1.2</td></tr>" in text
    assert f"<td>raw cosine kNN</td><td>{100 * result['top_1_raw']:.1f}</td>" in text
    n = len(result["curves"]["raw"]["recall"])
    assert f"recall within the {n} most similar rows" in text  # where the axis ends
    assert f"at {n} of 200 rows" in text


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


def test_names_scores_and_whole_labels_stand_below_pictures(tmp_path):
    path = tmp_path / "a_very_long_name_of_<i>_0031.png"
    path.write_bytes(image("red", (600, 300)))
    hit = Picture(path, "crocodile_head", 0.12345)
    text = strip_html(Picture(path, ""), {"learned": [hit]})
    assert "crocodile_<wbr>head" in text  # may be broken, is never cut
    assert "<span>0.123</span>" in text
    assert "<i>a_very_long_name_of_&lt;i&gt;_</i><i>0031.png</i>" in text
    assert text.count("<span class=label>") == 1  # the query has no label
    data = re.search('base64,([^"]+)', text)[1]
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (SIDE, SIDE // 2)


def test_every_picture_has_an_id_that_its_button_names(tmp_path):
    sly = Picture(image("red"), 'id="picture" popovertarget="picture"')
    report.write_page(tmp_path / "p.html", "t", "n", [strip_html(sly, {"a": [sly, sly]})] * 2)
    text = (tmp_path / "p.html").read_text()
    names = re.findall(r'<figure class="\w*" popover id="([^"]+)"', text)
    assert names == [f"picture-{i}" for i in range(1, 7)]
    assert re.findall('popovertarget="([^"]+)"', text) == names
    assert "<script" not in text


def test_plots_take_the_colours_of_the_page():
    from matplotlib.figure import Figure

    plot = Figure()
    plot.subplots().plot([0, 1], color=report.LEARNED, label="a line")
    plot.axes[0].legend()  # whose frame is white
    plot.axes[0].set_title("<script>")
    text = report.figure(plot, 'a "plot"')
    assert text == report.figure(plot, 'a "plot"')  # the same each time
    assert "var(--learned)" in text
    assert "currentColor" in text
    assert "fill: var(--page)" in text
    assert report.LEARNED not in text
    assert "#000000" not in text
    assert "#ffffff" not in text
    assert "<script" not in text
    assert "http" not in text
    assert 'aria-label="a &quot;plot&quot;"' in text


@pytest.mark.parametrize("missing", [{"PIL"}, {"matplotlib"}, {"PIL", "matplotlib"}])
def test_missing_packages_are_named_before_any_work(missing, monkeypatch, tmp_path):
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    extras = {"PIL": "images", "matplotlib": "plots"}
    wanted = ",".join(sorted(extras[name] for name in missing))
    said = []
    with pytest.raises(ImportError, match=re.escape(f"pip install 'nearkin[{wanted}]'")):
        demo.run(tmp_path / "demo", said.append)
    assert said == []
    assert not (tmp_path / "demo").exists()
