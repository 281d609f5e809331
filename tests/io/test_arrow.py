"""Tables of Arrow, from files and from memory, against the arrays that they were made of."""

import os
import warnings

import datasets as hugging_face
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from nearkin import datasets
from nearkin.validation import memory

N, D = 500, 7
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
IDS = [f"row {i}" for i in np.random.default_rng(1).permutation(N)]
LABELS = [("ant", "bee")[i % 2] for i in range(N)]

VECTORS = {
    "list": lambda: pa.array(list(X), pa.list_(pa.float32())),
    "large list of doubles": lambda: pa.array(list(X.astype(float)), pa.large_list(pa.float64())),
    "fixed size": lambda: pa.FixedSizeListArray.from_arrays(X.ravel(), D),
    "half": lambda: pa.array([x.astype(np.float16) for x in X], pa.list_(pa.float16())),
    "tensor": lambda: pa.FixedShapeTensorArray.from_numpy_ndarray(X),
}


def table(vectors="list"):
    return pa.table(
        {"id": IDS, "text": ["…"] * N, "embedding": VECTORS[vectors](), "label": LABELS}
    )


def chunks(*parts, kind=None):
    return pa.chunked_array([pa.array(part, kind) for part in parts])


def write_stream(tab, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, tab.schema) as out:
        out.write_table(tab, 100)


def write_file(tab, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, tab.schema) as out:
        out.write_table(tab, 100)


FILES = {
    "parquet": lambda tab, path: pq.write_table(tab, path, row_group_size=123),
    "feather": lambda tab, path: pyarrow.feather.write_feather(tab, path, compression="zstd"),
    "arrow": write_file,
    "ipc": write_stream,
}


def check(data, vectors="list"):
    expected = X.astype(np.float16) if vectors == "half" else X
    np.testing.assert_array_equal(data.rows, expected)
    assert data.rows.dtype == np.float32
    assert data.rows.flags.c_contiguous
    assert (data.labels.tolist(), data.ids.tolist()) == (LABELS, IDS)


@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("suffix", FILES)
def test_files_of_vectors(tmp_path, suffix, vectors):
    path = tmp_path / f"t.{suffix}"
    FILES[suffix](table(vectors), path)
    said = "vectors are read from column 'embedding', ids .* column 'id', labels .* column 'label'"
    with pytest.warns(UserWarning, match=said):
        check(datasets.read(path), vectors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = datasets.read(path, label_column="label", vector_column="embedding", id_column="id")
    check(named, vectors)


@pytest.mark.parametrize("suffix", FILES)
def test_wide_tables(tmp_path, suffix):
    columns = {f"x{i}": X[:, i] for i in range(D)} | {"kind": LABELS, "key": IDS}
    path = tmp_path / f"t.{suffix}"
    FILES[suffix](pa.table(columns), path)
    check(datasets.read(path, label_column="kind", id_column="key"))
    data = datasets.read(path, columns=["x3", "x1"], label_column="kind")
    np.testing.assert_array_equal(data.rows, X[:, [1, 3]])


IN_MEMORY = {
    "pyarrow": lambda: table("fixed size"),
    "polars array": lambda: pl.DataFrame({"id": IDS, "embedding": X, "label": LABELS}),
    "polars list": lambda: pl.DataFrame({"id": IDS, "embedding": X.tolist(), "label": LABELS}),
    "polars categories": lambda: pl.DataFrame({"id": IDS, "embedding": X, "label": LABELS}).cast(
        {"label": pl.Categorical}
    ),
    "pandas": lambda: pd.DataFrame({"id": IDS, "embedding": list(X), "label": LABELS}),
    "pandas index": lambda: pd.DataFrame({"embedding": list(X), "label": LABELS}, index=IDS),
    "duckdb": lambda: duckdb.from_arrow(table()).filter("label <> 'cat'"),
    "hugging face": lambda: hugging_face.Dataset(table()),
    "hugging face, put in order again": lambda: hugging_face.Dataset(
        table().take(np.arange(N)[::-1])
    ).select(range(N - 1, -1, -1)),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
@pytest.mark.filterwarnings("ignore:table. vectors are read")
def test_tables_in_memory(kind):
    check(datasets.from_arrow(IN_MEMORY[kind]()))


def test_one_batch_of_float32_is_not_copied(tmp_path):
    tab = table("fixed size")
    named = {"vector_column": "embedding", "id_column": "id", "label_column": "label"}
    data = datasets.from_arrow(tab, **named)
    stored = tab["embedding"].chunk(0).values.to_numpy()
    assert np.shares_memory(data.rows, stored)
    pyarrow.feather.write_feather(tab, tmp_path / "t.arrow", compression="uncompressed")
    mapped = datasets.read(tmp_path / "t.arrow", **named)
    check(mapped)
    assert not mapped.rows.flags.owndata
    assert not mapped.rows.flags.writeable


def test_what_does_not_fit_is_mapped_from_a_temporary_file(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 4 * X.nbytes - 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    write_file(table(), tmp_path / "t.arrow")
    data = datasets.read(tmp_path / "t.arrow", vector_column="embedding")
    check(data)
    assert isinstance(data.rows, np.memmap)
    assert os.path.exists(data.rows.filename)
    part = data.rows[3:5]
    del data
    assert part.tolist() == X[3:5].tolist()  # the file lives as long as its views
    del part
    assert [p.name for p in tmp_path.iterdir()] == ["t.arrow"]


def test_a_temporary_file_goes_with_the_error(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 4)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ragged = chunks([[1.0, 2.0]], [[3.0, 4.0]], [[5.0]])
    with pytest.raises(ValueError, match="list of 1 numbers in row 2, where the first row has 2"):
        datasets.from_arrow(pa.table({"v": ragged}), vector_column="v")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(small_disk, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 4)
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    part = pa.FixedSizeListArray.from_arrays(np.zeros(4_000_000), 4)
    with pytest.raises(OSError, match=r"could not be written.*TMPDIR"):
        datasets.from_arrow(pa.table({"v": pa.chunked_array([part] * 3)}), vector_column="v")


def test_repeated_values_that_unpack_to_far_more_than_the_file(tmp_path):
    zeros = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000_000, np.int8)), pa.array([0.0]))
    pq.write_table(pa.table({"x": zeros}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="claims 30,000,000 values: no data is compressed so well"):
        datasets.read(tmp_path / "t.parquet")


CATEGORY = pa.DictionaryArray.from_arrays(pa.array([1]), pa.array(["a", None]))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"v": chunks([[1.0, 2]], [[3.0, 4], None])}, {}, "column 'v' of table holds null in row"),
        ({"v": chunks([[1.0, 2]], [[3.0, None]])}, {}, "'v' of table holds null in row 1"),
        ({"v": chunks([[1.0, 2]], [[3.0, np.nan]])}, {}, "'v' of table holds nan in row 1"),
        ({"v": chunks([[1.0, 2], [3.0, 1e300]])}, {}, "'v' of table holds inf in row 1"),
        ({"v": chunks([[1.0, 2], [1.0]])}, {}, "list of 1 numbers in row 1"),
        ({"v": chunks([[], []], kind=pa.list_(pa.float32()))}, {}, "list of 0 numbers in row 0"),
        ({"v": chunks([["a"], ["b"]])}, {}, r"'v' of table holds list<.*string>, which is not num"),
        ({"v": chunks([[1.0]])}, {"vector_column": "w"}, "vector_column='w' is no column of table"),
        ({"v": chunks([[1.0]])}, {"vector_column": "v", "columns": ["v"]}, "give one of them"),
        ({"v": chunks([[1.0]]), "w": chunks([[2.0]])}, {}, "several columns of vectors: v, w"),
        ({"x": chunks([1.0], [None], kind=pa.float32())}, {}, "'x' of table holds null in row 1"),
        ({"w": chunks([1.0]), "x": chunks([np.nan])}, {}, "column 'x' of table holds nan in row 0"),
        ({"x": chunks([1.0]), "t": chunks(["a"])}, {}, "'t' of table holds string.*as the id col"),
        ({"v": chunks([[1.0]]), "label": chunks([None], kind=pa.string())}, {}, "'label' .* null"),
        ({"v": chunks([[1.0]]), "label": chunks([["a"]])}, {}, "'label' of table holds list<"),
        ({"v": chunks([[1.0]]), "k": chunks([0.5])}, {"id_column": "k"}, "'k' .* holds double; l"),
        ({"v": chunks([[1.0]]), "label": CATEGORY}, {}, "'label' of table holds null in row 0"),
        ({"v": chunks([], kind=pa.list_(pa.float32()))}, {}, "table holds no rows"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:table. ")
def test_what_cannot_be_read_is_named(columns, options, message):
    with pytest.raises(ValueError, match=message):
        datasets.from_arrow(pa.table(columns), **options)


def test_lists_of_integers_are_vectors_if_there_are_no_floats():
    both = {"tokens": [[1, 2], [3, 4]], "v": [[0.5], [1.5]]}
    with pytest.warns(UserWarning, match="column 'v'"):
        assert datasets.from_arrow(pa.table(both)).rows.tolist() == both["v"]
    with pytest.warns(UserWarning, match="column 'tokens'"):
        data = datasets.from_arrow(pa.table({"tokens": both["tokens"]}))
    assert data.rows.tolist() == both["tokens"]


def test_which_of_several_ids_is_not_guessed():
    columns = {"id": [1, 2], "doc_id": [3, 4], "v": [[0.5], [1.5]]}
    with pytest.warns(UserWarning, match="table: vectors are read from column 'v'$"):
        assert datasets.from_arrow(pa.table(columns)).ids is None
    assert datasets.from_arrow(pa.table(columns), vector_column="v", id_column="doc_id").ids[1] == 4


def test_what_is_no_table():
    for given in (3, [[1.0]], {"v": [[1.0]]}, hugging_face.DatasetDict()):
        with pytest.raises(TypeError, match="does not stream Arrow batches; give a data frame"):
            datasets.from_arrow(given)


@pytest.mark.parametrize("suffix", FILES)
def test_damaged_files(tmp_path, suffix):
    path, cut = tmp_path / f"t.{suffix}", tmp_path / f"cut.{suffix}"
    FILES[suffix](table(), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for end in (0, 4, len(whole) // 2, len(whole) - 40):
        cut.write_bytes(whole[:end])
        with pytest.raises(ValueError, match="is not a whole"):
            datasets.read(cut, vector_column="embedding")
    if suffix != "parquet":  # which has the names twice
        cut.write_bytes(whole.replace(b"text", b"te\xfft"))
        with pytest.raises(ValueError, match=r"is not a whole Arrow file .*utf-8"):
            datasets.read(cut, vector_column="embedding")
    for _ in range(100):  # an error that names the file, or other numbers
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(256)
        cut.write_bytes(damaged)
        message = ""
        try:
            assert datasets.read(cut, vector_column="embedding").rows.shape[1] == D
        except (ValueError, MemoryError) as error:
            message = str(error)
        assert not message or "cut." in message
