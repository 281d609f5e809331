import numpy as np
import pytest

from nearkin import datasets

QUERIES, DOCUMENTS = ["q1", "q2"], np.array([30, 10, 20])
EXPECTED = [[0, 1, 2], [1, 0, 0], [0, 2, 1]]


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 10 2\nq2 0 30 0\nq1 0 20 1\n",
        "q1\tQ0\t10\t2\r\nq2\tQ0\t30\t0\r\n\nq1\tQ0\t20\t1",
        "query-id\tcorpus-id\tscore\nq1\t10\t2\nq2\t30\t0\nq1\t20\t1\n",
        "\ufeffq1\t10\t2\nq2\t30\t0\nq1\t20\t1\n",
    ],
)
def test_formats(tmp_path, text):
    path = tmp_path / "qrels.tsv"
    path.write_text(text, newline="")
    assert datasets.read_judgements(path, QUERIES, DOCUMENTS).tolist() == EXPECTED


def test_ids_with_spaces(tmp_path):
    (tmp_path / "q.tsv").write_text("a b\tc d\t1\n")
    assert datasets.read_judgements(tmp_path / "q.tsv", ["a b"], ["x", "c d"]).tolist() == [
        [0, 1, 1]
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q1 0 10 2\nq3 0 10 1\n",
            "line 2 of .* names query 'q3', which is none of the 2 ids in qu",
        ),
        (
            "q1 0 11 2\n",
            "line 1 of .* names document '11', which is none of the 3 ids in documents",
        ),
        ("q1 0 10 2\nq1 0 10 2\n", "line 2 of .* grades document '10' for query 'q1' again"),
        ("q1 0 10 high\n", "line 1 of .* holds the grade 'high'; a whole number"),
        ("q1 0 10 1.5\n", "holds the grade '1.5'"),
        (f"q1 0 10 {10**30}\n", "holds the grade"),
        ("q1 0 10 1\nq1 20 1\n", "line 2 of .* holds 3 cells"),
        ("q1 10\n", "line 1 of .* holds 2 cells"),
        ("", "holds no judgements"),
        ("query-id\tcorpus-id\tscore\n", "holds no judgements"),
    ],
)
def test_bad_lines(tmp_path, text, message):
    (tmp_path / "q.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        datasets.read_judgements(tmp_path / "q.tsv", QUERIES, DOCUMENTS)


def test_bad_ids(tmp_path):
    (tmp_path / "q.tsv").write_text("q1 0 10 1\n")
    cases = ((["q1", "q1"], "queries holds the id 'q1' twice"), ("q1", r"queries has shape \(\)"),
             ([[1]], r"queries has shape \(1, 1\)"), ([0.5], "float64"))  # fmt: skip
    for queries, message in cases:
        with pytest.raises(ValueError, match=message):
            datasets.read_judgements(tmp_path / "q.tsv", queries, DOCUMENTS)
    with pytest.raises(FileNotFoundError, match="does not exist; give lines of query id"):
        datasets.read_judgements(tmp_path / "none.tsv", QUERIES, DOCUMENTS)
