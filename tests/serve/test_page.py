"""The page in a real browser: chromium, driven by playwright."""

import shutil
import subprocess
import time

import numpy as np
import pytest

from commands import MANUAL, answer, draw
from nearkin import SLNE
from nearkin.app.finished_run import TrainedModel, load_trained
from nearkin.app.run_files import MODEL
from nearkin.io.tables import Dataset
from nearkin.serve.adapted import AdaptedModel
from nearkin.serve.engine import open_engine
from nearkin.serve.guard import Guard
from nearkin.serve.reload import Holder
from serving import digits, engine_of, living

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
]

HOSTILE = "<img src=x onerror=window.hacked=1>"
HOSTILE_FILE = '"><script>window.hacked=1;<svg onload=window.hacked=1>&amp;.png'
VIEWS = ("#row=1", "#confusions", "#labels", "#map")
SIZES = {"desktop": (1280, 900), "tablet": (820, 1100), "phone": (390, 844)}
TOKEN = "0123456789abcdef0123"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on images, some of whose names and classes are hostile."""
    folder = tmp_path_factory.mktemp("page")
    draw(folder / "stripes")
    (folder / "stripes" / "leaning").rename(folder / "stripes" / HOSTILE)
    for file in (folder / "stripes" / HOSTILE).iterdir():
        file.rename(file.with_name(file.stem + HOSTILE_FILE))
    draw(folder / "more", images=2, seed=1)
    answer("run", folder / "stripes", "--folder", folder / "run", "--words", 32, *MANUAL)
    return folder


@pytest.fixture(scope="module")
def site(run):
    def opened():
        trained = load_trained(run / "run")
        return open_engine(trained, trained.training_rows())

    with living(Holder(opened, run / "run" / MODEL)) as live:
        yield live


class Visit:
    """A page, and everything that went wrong on it."""

    def __init__(self, browser, url, size="desktop", scheme="light"):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme,
            reduced_motion="reduce",
        )  # fmt: skip
        self.page, self.problems = self.context.new_page(), []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append("a dialog opened"))
        self.page.on("console", self._note)
        self.page.on("request", self._check_request)
        self.url = url

    def _note(self, message):
        if message.type == "error" and "status of 4" not in message.text:
            self.problems.append(message.text)

    def _check_request(self, request):
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.problems.append(f"asks {request.url}")

    def open(self, hash_=""):
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/{hash_}")
        self.page.wait_for_load_state("networkidle")
        return self.page

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.context.close()
        if kind is None:
            assert not self.problems


def until(page, expression, seconds=30):
    """Wait until an expression holds; playwright would wait by eval, which the page bars."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def hits(page, side="learned"):
    page.wait_for_selector(f"#{side} a")
    links = page.locator(f"#{side} a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    return [int(link.removeprefix("#row=")) for link in links]


def expected(site, row, n=12, **options):
    found = site.ok("/v1/search", rows=[row], n=n, **options)["queries"][0]
    return {name: [hit["row"] for hit in rows] for name, rows in found.items()}


def test_a_row_is_searched_and_results_lead_on(browser, site):
    with Visit(browser, site.url) as visit:
        page = visit.open("#row=3")
        assert hits(page) == expected(site, 3)["learned"]
        assert hits(page, "raw") == expected(site, 3)["raw"]
        assert page.locator("#predicted li").count() == 3
        shown = page.locator("#learned a").first.inner_text()
        assert "vote" in shown
        following = hits(page)[1]
        page.locator("#learned a").nth(1).click()
        until(page, f"document.querySelector('#row').value === '{following}'")
        first = expected(site, following)["learned"]
        until(page, f"document.querySelector('#learned a').hash === '#row={first[0]}'")
        assert hits(page) == first
        page.go_back()
        until(page, "document.querySelector('#row').value === '3'")
        page.fill("#label", "standing")
        page.locator("#label").press("Tab")
        standing = expected(site, 3, label="standing")["learned"]
        until(page, f"document.querySelector('#learned a').hash === '#row={standing[0]}'")
        assert hits(page) == standing


def test_rows_are_browsed_by_class(browser, site):
    with Visit(browser, site.url) as visit:
        page = visit.open("#row=3")
        page.click("#browse summary")
        page.wait_for_selector("#rows a")
        listed = site.get("/v1/rows?limit=50").json()["rows"]
        assert hits(page, "rows") == [one["row"] for one in listed]
        page.fill("#label", "standing")
        page.locator("#label").press("Tab")
        standing = [one["row"] for one in listed if one["label"] == "standing"]
        until(page, f"document.querySelectorAll('#rows a').length === {len(standing)}")
        assert hits(page, "rows") == standing
        page.locator("#rows a").nth(2).click()
        until(page, f"document.querySelector('#row').value === '{standing[2]}'")
        assert not page.is_visible("#rows")  # what is found comes into sight


def test_a_row_that_is_not_there_is_said(browser, site):
    with Visit(browser, site.url) as visit:
        page = visit.open("#row=3")
        page.goto(f"{site.url}/#row=999")
        page.wait_for_selector("#status.error:has-text('row 999')")
        page.goto(f"{site.url}/#row=4")
        until(page, "document.querySelector('#row').value === '4'")
        page.wait_for_selector("#status:not(.error)")
        visit.open("#row=998").wait_for_selector("#status.error:has-text('row 998')")


def test_a_row_is_picked_on_either_map(browser, site):
    with Visit(browser, site.url) as visit:
        page = visit.open("#map")
        for side in (0, 1):
            page.goto(f"{site.url}/#map")
            page.wait_for_selector("#maps canvas", timeout=60_000)
            known = site.get("/v1/map").json()
            places = known["places"][("raw", "learned")[side]]
            x, y = places[5]
            near = np.square(np.array(places) - (x, y)).sum(axis=1)
            box = page.locator("#maps canvas").nth(side).bounding_box()
            at = {"x": box["width"] * (0.04 + 0.92 * x), "y": box["height"] * (0.96 - 0.92 * y)}
            page.locator("#maps canvas").nth(side).click(position=at)
            until(page, "location.hash.startsWith('#row=')")
            row = int(page.evaluate("location.hash").removeprefix("#row="))
            assert near[known["rows"].index(row)] < 1e-4


def test_a_class_is_shown_alone_on_the_map(browser, site):
    with Visit(browser, site.url) as visit:
        page = visit.open("#map")
        page.wait_for_selector("#map-legend button", timeout=60_000)
        names = page.locator("#map-legend button").all_inner_texts()
        assert sorted(names) == sorted(site.get("/v1/model").json()["classes"])
        page.locator("#map-legend button", has_text="standing").click()
        assert page.input_value("#map-label") == "standing"
        pressed = "#map-legend button[aria-pressed=true]"
        assert page.locator(pressed).all_inner_texts() == ["standing"]
        page.locator(pressed).click()
        assert page.input_value("#map-label") == ""
        assert page.locator(pressed).count() == 0


def drop(page, path):
    """Drop a file from outside onto the page."""
    data = page.evaluate_handle(
        """([bytes, name]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], name, {type: "image/png"}));
            return data;
        }""",
        [list(path.read_bytes()), path.name],
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": data})


def test_an_image_is_dropped(browser, site, run):
    with Visit(browser, site.url) as visit:
        page = visit.open()
        drop(page, run / "more" / "lying" / "00.png")
        page.wait_for_selector("#asked figcaption:has-text('00.png')")
        assert page.locator("#predicted li").first.inner_text().startswith("lying")
        assert len(hits(page)) == len(hits(page, "raw")) == 12
        assert page.locator("#asked img").evaluate("image => image.naturalWidth") == 64
        page.set_input_files("#file", run / "more" / "standing" / "01.png")
        page.wait_for_selector("#asked figcaption:has-text('01.png')")
        assert page.locator("#predicted li").first.inner_text().startswith("standing")


def test_hostile_files_are_refused_with_a_reason(browser, site, tmp_path):
    svg = tmp_path / "<b>x.svg"
    svg.write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'/>")
    for name, data in (("empty.png", b""), ("text.png", b"no image"), ("page.html", b"<script>")):
        (tmp_path / name).write_bytes(data)
    with Visit(browser, site.url) as visit:
        page = visit.open()
        for file in (svg, *sorted(tmp_path.glob("*.png")), tmp_path / "page.html"):
            page.set_input_files("#file", file)
            page.wait_for_selector("#status.error:has-text('images[0]')")
            page.set_input_files("#file", [])
        assert page.evaluate("window.hacked") is None


def test_hostile_names_are_text(browser, site):
    row = next(
        one["row"] for one in site.get("/v1/rows?limit=200").json()["rows"]
        if one["label"] == HOSTILE
    )  # fmt: skip
    with Visit(browser, site.url) as visit:
        for view in (f"#row={row}", *VIEWS):
            page = visit.open(view)
            if view == "#map":
                page.wait_for_selector("#maps canvas")
            assert page.evaluate("window.hacked") is None
            assert page.locator("img[src='x']").count() == 0
        page = visit.open(f"#row={row}")
        page.wait_for_selector("#asked b")
        assert page.locator("#asked b").inner_text() == HOSTILE
        assert HOSTILE_FILE in page.locator("#asked").inner_text()
        page.goto(f"{site.url}/#confusions/{'<script>window.hacked=1'}/%zz")
        page.wait_for_timeout(300)
        assert page.evaluate("window.hacked") is None


def test_by_keyboard_alone(browser, site):
    with Visit(browser, site.url) as visit:
        page = visit.open()
        reach(page, "row")
        page.keyboard.press("Control+a")
        page.keyboard.type("5")
        page.keyboard.press("Enter")
        until(page, "location.hash === '#row=5'")
        page.wait_for_load_state("networkidle")
        found = hits(page)
        while not page.evaluate("document.activeElement.closest('#learned')"):
            page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Enter")
        until(page, f"location.hash === '#row={found[0]}'")
        page.locator("nav a[data-view=map]").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#maps canvas", timeout=60_000)
        while page.evaluate("document.activeElement.tagName") != "CANVAS":
            page.keyboard.press("Tab")
        before = page.locator("#map-row").inner_text()
        for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        page.wait_for_timeout(500)
        assert page.locator("#map-row a").count() == 1
        target = page.locator("#map-row a").get_attribute("href")
        page.keyboard.press("Enter")
        until(page, f"location.hash === '{target}'")
        assert before is not None


def reach(page, id_):
    """Press Tab until an element has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == id_:
            return
    raise AssertionError(f"{id_} cannot be reached by keyboard")


@pytest.mark.parametrize("size", SIZES)
def test_nothing_runs_off_the_side(browser, site, size):
    with Visit(browser, site.url, size) as visit:
        for view in (*VIEWS, "#confusions/lying/standing"):
            page = visit.open(view)
            if view == "#map":
                page.wait_for_selector("#maps canvas", timeout=60_000)
            beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert beyond <= 0, view
        page.goto(f"{site.url}/docs")
        page.wait_for_selector("#operations section")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_dark_where_the_system_is(browser, site):
    for scheme, is_dark in (("dark", True), ("light", False)):
        with Visit(browser, site.url, scheme=scheme) as visit:
            page = visit.open("#row=1")
            colours = page.evaluate(
                "[getComputedStyle(document.body).backgroundColor, "
                "getComputedStyle(document.body).color]"
            )
            paper, ink = (sum(map(int, c[4:-1].split(", "))) for c in colours)
            assert (paper < ink) == is_dark


def test_a_vector_is_pasted(browser, model_file):
    Q = digits(900, 901)[0]
    with (
        living(Holder(lambda: engine_of(model_file), model_file)) as live,
        Visit(browser, live.url) as visit,
    ):
        page = visit.open()
        page.click("summary:has-text('Paste a vector')")
        page.fill("#vector", "1, 2, 3")
        page.click("#vector-form button")
        page.wait_for_selector("#status.error:has-text('64 are needed')")
        page.fill("#vector", f"[{', '.join(map(str, Q[0].tolist()))}]")
        page.click("#vector-form button")
        page.wait_for_selector("#asked:has-text('pasted vector')")
        found = live.ok("/v1/search", vectors=Q.tolist(), n=12)["queries"][0]
        assert hits(page) == [hit["row"] for hit in found["learned"]]
        assert "--train" in page.locator("#raw").inner_text()


def adapted_engine(model, data):
    return open_engine(TrainedModel(AdaptedModel(model.adapter(), "SLNE", data)), None)


def test_a_similarity_without_votes_searches_its_rows(browser, tmp_path):
    X, y = digits(0, 200)
    learner = SLNE(n_neighbors=10, max_epochs=1, random_state=0).fit(X, y)
    labelled = Holder(lambda: adapted_engine(learner, Dataset(X, y)), tmp_path / "none")
    with living(labelled) as live, Visit(browser, live.url, "phone") as visit:
        page = visit.open("#row=3")
        assert hits(page) == expected(live, 3)["learned"]
        assert hits(page, "raw") == expected(live, 3)["raw"]
        assert page.locator("#decision").is_hidden()
        assert page.locator("nav a:visible").all_inner_texts() == ["Search", "Map"]
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.goto(f"{live.url}/#labels")
        page.wait_for_selector("#status.error:has-text('does not classify')")
    alone = Holder(lambda: adapted_engine(learner, None), tmp_path / "none")
    with living(alone) as live, Visit(browser, live.url) as visit:
        page = visit.open()
        page.wait_for_selector("#status:has-text('--rows FILE')")
        assert page.locator("#ask").is_hidden()
        assert "Adapts queries of 64 numbers" in page.locator("#facts").inner_text()


def test_confusions_and_likely_wrong_labels(browser, tmp_path):
    from nearkin import SoftVotingKNN

    X, y = digits(0, 300)
    y = np.where(np.arange(300) % 17 == 0, np.roll(y, 1), y)
    path = tmp_path / "model.safetensors"
    SoftVotingKNN(None, n_neighbors=12, vote="softmax").fit(X, y).save(path)
    with (
        living(Holder(lambda: engine_of(path), path)) as live,
        Visit(browser, live.url) as visit,
    ):
        page = visit.open("#confusions")
        page.wait_for_selector(".review-text:has-text('300 of 300 rows')")
        first = live.get("/v1/confusions").json()["pairs"][0]
        page.locator("#pairs a").first.click()
        title = f"{first['label']} taken for {first['predicted']}"
        page.wait_for_selector(f"#pair-title:has-text('{title}')")
        assert page.locator("#pair-rows a").count() == first["count"]
        page.click("nav a[data-view=labels]")
        page.wait_for_selector("#suspects a")
        known = live.get("/v1/suspects").json()
        shown = page.locator("#suspects a").evaluate_all("all => all.map(a => a.hash)")
        assert shown == [f"#row={one['row']}" for one in known["suspects"]]
        with page.expect_download() as download:
            page.click("#export")
        text = download.value.path().read_text()
        assert len(text.splitlines()) == known["total"] + 1
        page.locator("#suspects a").first.click()
        page.wait_for_selector("#predicted-title:has-text('not its own')")


def test_a_token_is_asked_for_once(browser, run):
    def opened():
        trained = load_trained(run / "run")
        return open_engine(trained, trained.training_rows())

    holder = Holder(opened, run / "run" / MODEL)
    with (
        living(holder, guard=Guard(token=TOKEN)) as live,
        Visit(browser, live.url) as visit,
    ):
        page = visit.open("#row=2")
        page.fill("#token-field", "wrong-wrong-wrong-wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        assert page.is_visible("#token-field")
        page.fill("#token-field", TOKEN)
        page.keyboard.press("Enter")
        assert len(hits(page)) == 12
        until(page, "document.querySelector('#learned img').naturalWidth > 0")
        page.reload()
        assert len(hits(page)) == 12


def test_ten_users_at_once(browser, site):
    rows = range(10)
    visits = [Visit(browser, site.url) for _ in rows]
    for row, visit in zip(rows, visits):
        visit.page.goto(f"{site.url}/#row={row}", wait_until="commit")
    for _ in range(3):
        following = []
        for row, visit in zip(rows, visits):
            until(visit.page, f"document.querySelector('#row').value === '{row}'")
            visit.page.wait_for_selector("#learned a")
            visit.page.wait_for_load_state("networkidle")
            assert hits(visit.page) == expected(site, row)["learned"]
            following.append(hits(visit.page)[0])
        for visit in visits:  # all of them, before the first is waited for
            visit.page.locator("#learned a").first.click(no_wait_after=True)
        rows = following
    for visit in visits:
        with visit:
            pass
    failed = [x for x in site.get("/metrics").text.splitlines() if 'status="5' in x]
    assert not failed


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The source of axe-core, which npm installs into a folder of its own."""
    if shutil.which("npm") is None:
        pytest.skip("npm, which installs axe-core, is not there")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "axe-core@4"]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"npm cannot install axe-core: {installed.stderr[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_accessibility(browser, site, axe, size, scheme):
    with Visit(browser, site.url, size, scheme) as visit:
        for view in (*VIEWS, "docs"):
            page = visit.open(view)
            if view == "#map":
                page.wait_for_selector("#maps canvas", timeout=60_000)
            page.evaluate(axe)
            found = page.evaluate("axe.run(document)")
            serious = [
                (one["id"], one["impact"], [node["html"][:160] for node in one["nodes"][:3]])
                for one in found["violations"]
                if one["impact"] in ("serious", "critical")
            ]
            assert not serious, (view, serious)
            assert len(found["passes"]) > 15
