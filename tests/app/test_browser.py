"""Reports in a real browser: on a phone, in the dark, by keyboard."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from nearkin import SLNE, SoftVotingKNN
from nearkin.app import page
from nearkin.app.assessment import assess
from nearkin.app.baselines import raw_cosine

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LONG = "a_class_of_a_very_long_name_that_differs_at_its_end_"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # which root cannot have
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with everything in it, of images with long and hostile names."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    kinds = np.arange(120) % 4
    X = rng.normal(size=(120, 8)) + 2 * np.eye(8)[kinds]
    y = np.array([LONG + "crab", LONG + "lobster", "<script>alert(1)</script>", "x"])[kinds]
    paths = []
    for i in range(120):
        paths.append(folder / f"{'very_' * 12}long_<b>_{i:04}.png")
        Image.fromarray(rng.integers(0, 255, (60, 90, 3), dtype=np.uint8)).save(paths[-1])
    model = SoftVotingKNN(SLNE.paper(n_neighbors=20), random_state=0).fit(X[:80], y[:80])
    raw = raw_cosine().fit(X[:80], y[:80])
    result = assess(model, X[80:], y[80:], raw)
    strips = page.strips_of(model, X[80:], y[80:], paths[:80], paths[80:], lambda: raw)
    page.write(folder / "report.html", result, LONG * 2, (), strips, 0.5)
    return folder / "report.html"


@pytest.fixture
def opened(browser, report, request):
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
    )
    tab = context.new_page()
    problems = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("dialog", lambda dialog: problems.append(dialog.message))
    tab.goto(report.as_uri())
    yield tab
    assert problems == []
    context.close()


WIDTHS = [(320, "light"), (390, "dark"), (820, "light"), (1280, "dark")]


@pytest.mark.parametrize("opened", WIDTHS, indirect=True)
def test_nothing_runs_off_the_page(opened):
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert opened.evaluate(wide)
    # No picture is squashed or smaller than a finger.
    sizes = opened.evaluate(
        "[...document.querySelectorAll('.picture img')].map(i => [i.clientWidth, i.clientHeight])"
    )
    assert len(sizes) > 50
    assert all(abs(w - h) <= 1 and w >= 56 for w, h in sizes)
    # Labels that begin alike are seen to their end.
    cut = "[...document.querySelectorAll('.label')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    assert opened.evaluate(f"{cut}.length") == 0
    texts = set(opened.locator(".strip .label").all_inner_texts())
    assert {text.rsplit("_", 1)[-1] for text in texts} >= {"crab", "lobster"}


@pytest.mark.parametrize("opened", WIDTHS[1:3], indirect=True)
def test_a_picture_is_enlarged_by_keyboard(opened):
    opened.keyboard.press("Tab")  # to the first picture, or a table that scrolls
    while opened.evaluate("document.activeElement.tagName") != "BUTTON":
        opened.keyboard.press("Tab")
    name = opened.evaluate("document.activeElement.getAttribute('aria-label')")
    assert name.startswith("enlarge ")
    small = opened.locator(".picture img").first.bounding_box()
    opened.keyboard.press("Enter")
    shown = opened.locator("figure:popover-open")
    assert shown.count() == 1
    large = shown.locator("img").bounding_box()
    assert large["width"] > 2 * small["width"]
    assert large["x"] >= 0
    assert large["x"] + large["width"] <= opened.viewport_size["width"]
    assert abs(large["width"] / large["height"] - 1.5) < 0.05  # the whole picture
    assert "long_<b>_" in shown.locator(".name").inner_text()
    opened.keyboard.press("Escape")
    assert shown.count() == 0
    assert opened.evaluate("document.activeElement.tagName") == "BUTTON"
    opened.keyboard.press("Tab")
    opened.keyboard.press("Space")
    assert shown.count() == 1
    opened.mouse.click(3, 3)  # beside it
    assert shown.count() == 0


@pytest.mark.parametrize("opened", [(820, "light"), (820, "dark")], indirect=True)
def test_text_and_plots_stand_out(opened):
    """WCAG's contrast of text on the page, in words and in plots, in both schemes."""
    found = opened.evaluate("""() => {
      const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
      const page = rgb(getComputedStyle(document.body).backgroundColor);
      const colour = (where, what) =>
        [...document.querySelectorAll(where)].map(e => rgb(getComputedStyle(e)[what]));
      return [page, [...colour('p, td, th, figcaption span', 'color'),
                     ...colour('.plot svg text', 'fill')],
              colour('.plot svg path[style*="--learned"], .plot svg path[style*="--raw"]',
                     'stroke')];
    }""")
    page_colour, texts, lines = found
    assert len(texts) > 50
    assert min(contrast(text, page_colour) for text in texts) >= 4.5
    strokes = [line for line in lines if len(line) >= 3]  # bars have none
    assert len(strokes) >= 5
    assert min(contrast(line, page_colour) for line in strokes) >= 3


def contrast(a, b):
    one, two = sorted((luminance(a), luminance(b)))
    return (two + 0.05) / (one + 0.05)


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
              for c in (v / 255 for v in rgb[:3])]  # fmt: skip
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))
