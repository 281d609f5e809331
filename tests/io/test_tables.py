import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin import datasets
from nearkin.io.tables import is_id


def read(tmp_path, text, **options):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return datasets.read(path, **options)


def test_columns_of_one_name_are_all_read(tmp_path):
    data = read(tmp_path, "x,x,label\n1.5,2,a\n3.5,4,b\n")
    assert data.rows.tolist() == [[1.5, 2], [3.5, 4]]
    table = pa.Table.from_arrays([pa.array([1.5, 3.5]), pa.array([2.0, 4.0])], names=["x", "x"])
    pq.write_table(table, tmp_path / "t.parquet")
    assert datasets.read(tmp_path / "t.parquet").rows.tolist() == [[1.5, 2], [3.5, 4]]
    with pytest.raises(ValueError, match="2 columns named 'label'"):
        read(tmp_path, "x,label,label\n1.5,a,b\n")


@pytest.mark.parametrize(
    ("text", "rows", "labels"),
    [
        ("1.5,2\n3.5,4\n", [[1.5, 2], [3.5, 4]], None),
        ("5,4,0\n7,9,1\n", [[5, 4], [7, 9]], ["0", "1"]),
        ("1.5,2,a\n3.5,4,b\n", [[1.5, 2], [3.5, 4]], ["a", "b"]),
        ("5,6,a\n7,9,b\n8,1,a\n", [[5, 6], [7, 9], [8, 1]], ["a", "b", "a"]),
    ],
)
def test_without_a_header_no_row_is_lost(tmp_path, text, rows, labels):
    with pytest.warns(UserWarning, match="no header: its columns are called 0 to"):
        data = read(tmp_path, text, label_column=None if labels is None else "2")
    assert data.rows.tolist() == rows
    assert (data.labels if labels is None else data.labels.tolist()) == labels


def test_numbers_as_names(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(3, 4)))
    for frame in (frame, frame.assign(label=["a", "b", "c"])):  # noqa: B020
        data = read(tmp_path, frame.to_csv(index=False))
        assert data.rows.shape == (3, 4)
    with pytest.raises(ValueError, match="may be a header or a row; put a line with names"):
        read(tmp_path, "0,1\n1,0\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3 of .* holds 1 cells where the first line has 2 cells"),
        ("a,b\n1,2\n3,4,5\n", "line 3 of .* holds 3 cells"),
        ("a,b\n1,2\n\n3,4\n", "line 3 of .* holds nothing"),
        ("a,b\n1,2\n3,\n", "line 3 of .* holds '' in column 'b', which is not a number"),
        ("a,b\n1,two\n", "line 2 of .* holds 'two' in column 'b'.* name it as the label column"),
        ("a,b\n", "holds no rows"),
        ("label\na\n", "no column besides the labels"),
        ("\n\n", "holds no rows"),
        ("a,b\n1,\0\n", "t.csv"),
    ],
)
def test_bad_lines_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_marks_spaces_and_empty_lines_at_the_end(tmp_path):
    data = read(tmp_path, b"\xef\xbb\xbflabel, b\r\ncat,1\r\ndog,2\r\n\r\n\r\n")
    assert data.rows.tolist() == [[1], [2]]
    assert data.labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("id", [9, 4, 7], True), ("userId", [9, 4], True), ("image_ID", [9, 4], True),
        ("Unnamed: 0", [9, 4], True), ("", [9, 4], True), ("id", [9, 9, 4], False),
        ("id", [9], False), ("width", [9, 4, 7], False), ("width", range(3, 9), True),
        ("width", range(3, 7), False), ("width", [1, 2, 3, 4, 5, 5], False),
        ("grid", [9, 4, 7], False), ("valid", [1, 0], False),
        ("width", np.array([250, 251, 252, 253, 254, 255], np.uint8), True),
        ("width", np.array([9, 4, 0, 3, 1, 7], np.uint8), False),
    ],
)  # fmt: skip
def test_what_looks_like_an_id(name, values, found):
    assert is_id(name, values) == found


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["id", "counter"])
def test_ids_are_no_features_unless_named(tmp_path, suffix, name):
    ids = [10**12 + i for i in range(8)] if name == "counter" else [7, 3, 9, 1, 10**17, 5, 6, 8]
    frame = pd.DataFrame({name: ids, "x": np.arange(8) / 4, "w": [3, 1, 4, 1, 5, 9, 2, 6],
                          "label": list("abababab")})  # fmt: skip
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    with pytest.raises(ValueError, match=f"column '{name}' of .* looks like an id.*'-{name}'"):
        datasets.read(path)
    for columns, width in ((["*"], 3), ([f"-{name}"], 2), (["x", "w"], 2), ([name], 1), (["?"], 2)):
        data = datasets.read(path, columns=columns)
        assert data.rows.shape == (8, width)
        assert data.labels.tolist() == list("abababab")
    with pytest.raises(ValueError, match="columns='z' is no column of"):
        datasets.read(path, columns=["x", "z"])


def test_a_feature_that_is_called_y(tmp_path):
    data = read(tmp_path, "x,y\n1.5,2\n3.5,4\n", columns=["x", "y"])
    assert data.labels is None
    assert data.rows.tolist() == [[1.5, 2], [3.5, 4]]


def test_ids_of_a_csv_file(tmp_path):
    data = read(tmp_path, "id,x,label\n7,1.5,a\n3,2.5,b\n", id_column="id")
    assert data.rows.tolist() == [[1.5], [2.5]]
    assert (data.ids.tolist(), data.labels.tolist()) == (["7", "3"], ["a", "b"])
    with pytest.raises(ValueError, match=r"vector_column='x' of .* does not hold lists of numbers"):
        read(tmp_path, "x,label\n1.5,a\n", vector_column="x")
