"""Every item through the command, on made-up folders; claims that come out both ways."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import image_sets as folders
import nearkin.reproduction as paper
from nearkin import RunFolder
from nearkin.reproduction import (
    ITEMS,
    figure2,
    figure4,
    figure5,
    pages,
    published,
    table2,
    table3,
    table4,
)
from nearkin.reproduction.results import Cell, Claim, Result
from nearkin.reproduction.runner import run
from nearkin.reproduction.setup import Setup

NEARKIN = Path(sys.executable).parent / "nearkin"
MODULES = [p for p in Path(paper.__file__).parent.glob("*.py") if p.stem != "published"]


def reproduce(*arguments):
    threads = {"OMP_NUM_THREADS": "1", "LOKY_MAX_CPU_COUNT": "1"}
    return subprocess.run(
        [NEARKIN, "reproduce", *map(str, arguments)],
        capture_output=True, text=True, env=os.environ | threads,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A quick run of everything."""
    data = tmp_path_factory.mktemp("data")
    folders.caltech101(data)
    folders.sun(data)
    folders.ilsvrc(data)
    folders.mnist(data)
    options = ["--data", data, "--folder", data / "out", "--quick", "--jobs", 1]
    result = reproduce("all", *options, "--results", data / "results.md")
    assert result.returncode == 0, result.stderr
    return data, options, result.stdout


def test_every_item_writes_its_json_and_plots(done):
    data, _, printed = done
    assert "quick run" in printed
    for item in ITEMS:
        found = json.loads((data / "out" / f"{item}.json").read_text())
        assert found["item"] == item
        assert found["claims"]
    for name in ("figure1", "figure2", "figure4-hardest", "figure4-softmax", "figure5", "table2"):
        assert (data / "out" / f"{name}.png").stat().st_size > 5_000
        assert "</svg>" in (data / "out" / f"{name}.svg").read_text()


def test_results_hold_the_figures_of_the_paper_and_ours(done):
    data, *_ = done
    found = json.loads((data / "out" / "table3.json").read_text())
    cell = next(c for c in found["cells"] if c["what"] == "Caltech-101 top-1" and
                c["method"] == "SL-NE")  # fmt: skip
    assert cell["paper"] == published.TABLE3["Caltech-101"][1]["SL-NE"]
    assert 0 < cell["ours"] <= 100
    assert 0 < cell["best"] <= 100
    sun = [c for c in found["cells"] if c["what"] == "SUN-397 top-1"]
    assert {c["method"] for c in sun} == set(published.METHODS) - {"LMNN"}
    retrieval = next(c for c in found["cells"] if c["method"] == "Retrieval")
    assert "another system" in retrieval["reason"]
    errors = json.loads((data / "out" / "table4.json").read_text())["cells"]
    assert {c["method"] for c in errors} >= {"PCA subspace", "SL-NE", "SL-DE"}


def test_missing_data_is_reported_as_not_run(done):
    data, _, printed = done
    wanted = f"not run: put Caltech-256 at {data / '256_ObjectCategories'}"
    for text in (printed, (data / "out" / "report.html").read_text()):
        assert wanted in text
    assert f"not run: put covtype.npz at {data / 'covtype.npz'}" in printed


@pytest.mark.parametrize("item", [item for item in ITEMS if item != "table2"])
def test_without_any_data_an_item_says_where_to_put_it(item, tmp_path):
    (tmp_path / "data").mkdir()
    said = []
    setup = Setup(tmp_path / "data", RunFolder(tmp_path / "out"), log=said.append)
    (result,) = run(item, setup, tmp_path / "results.md")
    assert result.not_run
    assert f"at {tmp_path / 'data'}" in "\n".join(said)
    written = (tmp_path / "results.md").read_text()
    assert "at DIR/" in written  # a text that is kept names no folder of this machine
    assert str(tmp_path) not in written
    assert (tmp_path / "out" / f"{item}.html").exists()


def test_the_page_needs_no_other_file(done):
    page = (done[0] / "out" / "report.html").read_text()
    assert page.count("<svg") >= 6
    assert "http" not in page
    assert "<script" not in page
    assert 'class="query"' in page  # the strips of Figure 3


def test_the_text_has_every_item(done):
    text = (done[0] / "results.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        f"## {json.loads((done[0] / 'out' / f'{item}.json').read_text())['title']}"
        for item in ITEMS
    ]
    assert "| Caltech-101 top-1 | SL-NE | 75.28 |" in text


def test_a_second_call_measures_nothing_again(done):
    data, options, _ = done
    before = {p: p.stat().st_mtime_ns for p in (data / "out").iterdir() if p.is_file()}
    result = reproduce("table3", *options)
    assert result.returncode == 0, result.stderr
    after = {p: p.stat().st_mtime_ns for p in before}
    assert {p.name for p in before if after[p] != before[p]} <= {"nearkin-folder.json"}
    assert "75.28" in result.stdout


def test_quick_and_full_results_are_not_mixed(done):
    _, options, _ = done
    result = reproduce("table2", *(option for option in options if option != "--quick"))
    assert result.returncode == 1
    assert "quick is True there and False here" in result.stderr


def test_a_folder_of_others_is_refused(tmp_path):
    note = tmp_path / "thesis.txt"
    note.write_text("mine")
    result = reproduce("table2", "--data", tmp_path, "--folder", tmp_path, "--quick")
    assert result.returncode == 1
    assert "holds files that are not nearkin's (thesis.txt)" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9", "--data", "."], "item='table9' must be one of 'all'"),
        (["table1", "--data", "nowhere"], "--data nowhere is not a folder"),
        (["table1", "--data", ".", "--splits", 0], "splits=0"),
    ],
)
def test_wrong_arguments(arguments, message, tmp_path):
    result = reproduce(*arguments, "--folder", tmp_path)
    assert result.returncode == 1
    assert message in result.stderr


def test_the_papers_figures_are_in_one_place():
    tables = [published.TABLE1, *published.TABLE3["Caltech-101"].values(), published.TABLE4]
    figures = {v for table in tables for v in _leaves(table)}
    assert len(figures) > 25
    for module in MODULES:
        numbers = {
            node.value
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, float)
        }
        assert not numbers & figures, module.name


def _leaves(table):
    for value in table.values():
        yield from _leaves(value) if isinstance(value, dict) else [value]


def test_tables_are_whole():
    assert {len(row) for row in published.TABLE1.values()} == {4}
    assert set(published.SETTINGS) == {*published.TABLE3, "ILSVRC'10"}
    for name, table in published.TABLE3.items():
        for top1, top3 in zip(table[1].values(), table[3].values()):
            assert (top1 is None) == (top3 is None), name
            assert top1 is None or top1 < top3
    assert {w for row in published.TABLE2.values() for w in row.values()} == {*published.EXPONENTS}


def test_exponents_are_those_of_a_line_through_logarithms():
    rng = np.random.default_rng(0)
    sizes = np.array([100, 300, 1_000, 4_000])
    seconds = 0.01 * sizes**1.7 * np.exp(rng.normal(0, 0.1, 4))
    expected = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    assert table2.slope(sizes, seconds) == pytest.approx(expected)
    assert table2.slope([1, 10, 100], [2.0, 2.0, 2.0]) == pytest.approx(0)


def test_growth_beyond_the_papers_is_noticed():
    words = {m: {q: published.EXPONENTS[w] for q, w in row.items()}
             for m, row in published.TABLE2.items()}  # fmt: skip
    assert all(claim.holds for claim in table2.claims(words))
    words["SL-NE"]["sample number"] = 2.0
    assert [c.text.split()[0] for c in table2.claims(words) if not c.holds] == ["SL-NE"]


@pytest.mark.parametrize("quick", [False, True])
def test_every_method_is_timed_once_for_every_quantity(quick):
    made = [(sweep.quantity, method) for sweep in table2.sweeps(quick) for method in sweep.methods]
    assert sorted(made) == sorted((q, m) for q in published.GROWTH for m in published.TABLE2)
    assert len({sweep.name for sweep in table2.sweeps(quick)}) == len(table2.sweeps(quick))


def test_the_difference_of_the_rules_has_its_error_over_the_draws():
    drawn = {"hardest": [[0, 70.0], [0, 71.0], [0, 75.0]], "uniform": [[0, 70.5]] * 3}
    assert "+1.50 ± 1.53" in figure2.why(drawn)  # gains of -.5, .5 and 4.5
    assert figure2.why({rule: curves[:1] for rule, curves in drawn.items()}) == ""


@pytest.mark.parametrize(("hardest", "uniform", "expected"), [
    ([50, 69, 70, 70], [50, 55, 60, 65], [True, True, True]),
    ([50, 52, 55, 60], [50, 64, 65, 65], [True, False, False]),
    ([50, 30, 20, 20], [50, 55, 60, 65], [False, False, False]),
])  # fmt: skip
def test_claims_of_figure_2(hardest, uniform, expected):
    found = {"hardest": hardest, "uniform": uniform}
    assert [c.holds for c in figure2.claims("here", found)] == expected


def test_claims_of_figure_4():
    found = {
        "single": 75.0,
        "curves": {"300": [60.0] * 19 + [74.8], "1000": [70.0] * 9 + [74.5] * 11},
    }
    assert [c.holds for c in figure4.claims("hardest", found, 20, 3_000)] == [True, True, True]
    found["single"] = 76.0
    assert [c.holds for c in figure4.claims("hardest", found, 20, 3_000)] == [True, False, False]


def test_claims_of_figure_5():
    def curves(slne, slde):
        return {m: {"precision": p} for m, p in
                (("Retrieval", [0.6, 0.5, 0.4]), ("SL-NE", slne), ("SL-DE", slde))}  # fmt: skip

    close = figure5.claims("x", curves([0.7, 0.6, 0.4], [0.69, 0.59, 0.4]))
    assert [c.holds for c in close] == [True, True]
    off = figure5.claims("x", curves([0.7, 0.5, 0.4], [0.65, 0.5, 0.4]))
    assert [c.holds for c in off] == [False, False]


def test_claims_of_table_3_use_own_settings_where_there_are_some():
    top1 = {"linear SVM": 70.0, "Retrieval": 60.0, "SL-NE": 65.0, "SL-DE": 62.0,
            "SL-NE, own best": 72.0, "SL-DE, own best": 71.0}  # fmt: skip
    found = {c.text: c.holds for c in table3.claims("x", top1)}
    assert found["SL-NE above linear SVM (x, paper's settings)"] is False
    assert found["SL-NE above linear SVM (x, own settings)"] is True
    assert found["SL-DE within 2 points of SL-NE (x, paper's settings)"] is False
    assert found["SL-DE within 2 points of SL-NE (x, own settings)"] is True


@pytest.mark.parametrize(("slde", "holds"), [(40.0, True), (71.9, True), (72.5, False)])
def test_claims_of_table_4_let_the_ensemble_be_better(slde, holds):
    errors = {"linear SVM": 75.0, "Retrieval": 77.0, "LMNN": 73.0, "Mensink et al.": 65.0,
              "SL-NE": 70.0, "SL-DE": slde, "PCA subspace": 80.0}  # fmt: skip
    found = {c.text: c.holds for c in table4.claims("x", errors)}
    text = "SL-DE has an error less than 2 points higher than SL-NE (x, paper's settings)"
    assert found[text] is holds


def test_differences_are_in_brackets():
    cell = Cell("a", "b", 70.0, 60.0, 75.5)
    assert pages.cells_of(cell) == ("a", "b", "70.00", "60.00 (-10.00)", "75.50 (+5.50)")
    assert pages.cells_of(Cell("a", "b", None, 60.0))[2:] == ("–", "60.00", "–")
    assert pages.cells_of(Cell("a", "b", "linear (1)", 1.2))[2:4] == ("linear (1)", "1.20")


def test_pages_escape_markup(tmp_path):
    result = Result("x", "T", [Cell("a|b", "<m>", 1.0, 2.0)], [Claim("c", None, "e")], ["<n>"])
    pages.write_html(tmp_path / "p.html", [(object(), result)], "about")
    page = (tmp_path / "p.html").read_text()
    assert "&lt;m&gt;" in page
    assert "&lt;n&gt;" in page
    pages.write_markdown(tmp_path / "r.md", [result], "about")
    assert "| a/b | <m> | 1.00 | 2.00 (+1.00) | – |" in (tmp_path / "r.md").read_text()


def test_what_holds_and_what_does_not_in_words():
    claims = [Claim("a", True, "1"), Claim("b", False, "2", "Since c."), Claim("d", True, "3")]
    one = Result("one", "Table 1: x", claims=claims[:2])
    two = Result("two", "Figure 2: y", claims=claims[2:])
    results = [one, two, Result("three", "Table 3: z")]
    assert pages.in_words(results) == "Every claim of Figure 2 holds."
    assert pages.failures(results) == ["b. Since c."]
    assert pages.claims_of(one)[1][2] == "2. Since c."
    assert (pages.in_words([one]), pages.failures([two])) == ("", [])


def test_the_spread_over_splits():
    found = [{"SL-NE": {"top1": value}} for value in (70.0, 72.0)]
    assert "SL-NE 71.00 ± 1.00" in table3._spread("Caltech-101", found)
