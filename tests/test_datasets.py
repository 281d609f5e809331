import numpy as np
import pandas as pd
import pytest

from nearkin import datasets

X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "xy.npz", X=X, y=np.array(["a", "b", "a"]))
    frame = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "label": ["a", "b", "a"]})
    frame.to_parquet(tmp_path / "f.parquet")
    frame.rename(columns={"label": "kind"}).to_csv(tmp_path / "f.csv", index=False)
    pd.DataFrame({"vec": list(X), "y": [1, 2, 1]}).to_parquet(tmp_path / "vectors.parquet")
    (tmp_path / "labels.txt").write_text("a\nb\na\n")
    return tmp_path


def test_every_format(files):
    cases = {
        "xy.npz": {}, "f.parquet": {}, "f.csv": {"label_column": "kind"},
        "x.npy": {"labels": files / "labels.txt"},
    }  # fmt: skip
    for name, how in cases.items():
        data = datasets.read(files / name, **how)
        np.testing.assert_array_equal(data.rows, X)
        assert data.labels.tolist() == ["a", "b", "a"]
    vectors = datasets.read(files / "vectors.parquet")
    np.testing.assert_array_equal(vectors.rows, X)
    assert vectors.labels.tolist() == [1, 2, 1]


def test_npy_stays_on_disk(files):
    data = datasets.read(files / "x.npy")
    assert isinstance(data.rows, np.memmap)
    assert data.labels is None


def test_bad_files(files):
    (files / "cut.npy").write_bytes((files / "x.npy").read_bytes()[:-3])
    (files / "cut.npz").write_bytes((files / "xy.npz").read_bytes()[:-30])
    (files / "cut.parquet").write_bytes(b"PAR1")
    (files / "words.csv").write_text("a,b\n1,two\n")
    (files / "empty.csv").write_text("")
    np.savez(files / "other.npz", A=X)
    np.save(files / "flat.npy", X.ravel())
    np.save(files / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name, message in {
        "cut.npy": "not a whole .npy", "cut.npz": "cannot be used", "other.npz": "no array X",
        "cut.parquet": "not a whole parquet", "words.csv": "not a number", "empty.csv": "no rows",
        "flat.npy": r"shape \(6,\)", "objects.npy": "not a whole .npy",
        "labels.txt": "suffix '.txt'",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=message):
            datasets.read(files / name)
    for options in ({"label_column": "y"}, {"columns": ["*"]}, {"id_column": "id"}):
        with pytest.raises(
            ValueError, match=r"column.*=.* is for tables, and .* has no columns with"
        ):
            datasets.read(files / "x.npy", **options)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        datasets.read(files / "nothing.npy")
    with pytest.raises(ValueError, match="label_column='color' is no column of"):
        datasets.read(files / "f.csv", label_column="color")
    (files / "two.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="2 labels for 3 rows"):
        datasets.read(files / "x.npy", labels=files / "two.txt")
