"""The site builds without a warning, loads nothing from elsewhere, and its links lead somewhere."""

import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("mkdocs", reason="needs mkdocs: pip install '.[docs]'")

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
PUBLIC = ["", ".neighbors", ".images", ".metrics", ".preprocessing"]


class Page(HTMLParser):
    """What a page loads, where it links to, and the places in it that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.anchors = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag in LOADED and values.get(LOADED[tag]):
            self.loaded.append(values[LOADED[tag]])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    place = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)  # stops at a warning
    return place


@pytest.fixture(scope="module")
def site_pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_elsewhere(site, site_pages):
    for path, page in site_pages.items():
        foreign = [url for url in page.loaded if urlsplit(url).netloc]
        assert not foreign, f"{path.name} loads {foreign}"
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"""@import|url\(\s*["']?(https?:)?//""", text), sheet


def test_links_lead_somewhere(site, site_pages):
    checked = 0
    for path, page in site_pages.items():
        if path.name == "404.html":  # its links are absolute, for any place
            continue
        for link in map(urlsplit, page.links + page.loaded):
            if link.scheme or link.netloc:
                continue
            target = (path.parent / unquote(link.path)).resolve() if link.path else path
            assert target.is_relative_to(site), f"{path.name} leaves the site: {link.path}"
            assert target.exists(), f"{path.name}: no {link.path}"
            if target in site_pages and link.fragment:
                anchors = site_pages[target].anchors
                assert unquote(link.fragment) in anchors, f"{path.name}: no {link.geturl()}"
            checked += 1
    assert checked > 1_000


def public_names():
    for part in PUBLIC:
        module = import_module(f"nearkin{part}")
        yield from (f"nearkin{part}.{name}" for name in module.__all__ if name != "__version__")
    yield from (f"nearkin.datasets.{name}" for name in ("read", "from_arrow", "read_judgements"))


def test_everything_public_is_in_the_reference(site, site_pages):
    anchors = set().union(*(p.anchors for path, p in site_pages.items() if "api" in path.parts))
    homes = {name.rpartition(".")[2] for name in anchors}
    missing = [name for name in public_names() if name.rpartition(".")[2] not in homes]
    assert missing == []


def test_links_of_the_files_beside_the_site_lead_somewhere():
    for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        for link in re.findall(r"\]\(\s*([^)#\s]+)", text):
            assert urlsplit(link).scheme or (ROOT / link).exists(), f"{name}.md: no {link}"
