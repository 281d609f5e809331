"""Damaged files in every format that is read: refused, or read as a naive reader does."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hostile import judge, material, surface
from hostile.cases import mutations
from hostile.judge import FINE, Verdict
from hostile.material import HOME
from hostile.runner import Case
from pictures import encoded

Reader = Callable[[Path], Any]


class Format(NamedTuple):
    """A clean file, how it is read, and what reads it in a naive way."""

    file: str
    read: Reader
    naive: Reader | None = None
    mutate: mutations.Mutate = mutations.damaged
    share: int = 1


def read_model(path: Path) -> Any:
    import nearkin

    return surface.answers(nearkin.load(path))


def saved_again(path: Path) -> Any:
    """The oracle of a well-formed model: saved and read again it answers the same."""
    import nearkin

    nearkin.save(nearkin.load(path), "again.safetensors")
    return read_model(Path("again.safetensors"))


def unchanged(path: Path) -> Any:
    """The oracle of a file with a checksum: the clean file."""
    return read_model(HOME.folder / path.name)


def read_rows(path: Path) -> Any:
    from nearkin import datasets

    data = datasets.read(path)
    return np.asarray(data.rows, np.float32), [] if data.labels is None else data.labels


def naive_npy(path: Path) -> Any:
    return np.load(path, allow_pickle=False).astype(np.float32), []


def naive_npz(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as file:
        return file["X"].astype(np.float32), file.get("y", [])


def naive_csv(path: Path) -> Any:
    header, *lines = [r for r in csv.reader(io.StringIO(path.read_text("utf-8-sig"))) if r]
    if any(len(line) != len(header) for line in lines) or len(set(header)) < len(header):
        raise ValueError("not a table")
    label = next((i for name in ("label", "y") for i, h in enumerate(header) if h == name), None)
    rows = [[float(c) for i, c in enumerate(line) if i != label] for line in lines]
    return np.array(rows, np.float32), [] if label is None else [line[label] for line in lines]


def naive_parquet(path: Path) -> Any:
    import pandas as pd

    table = pd.read_parquet(path)
    labels = table.pop("label") if "label" in table else []
    return table.to_numpy(np.float32), np.array(labels)


def naive_arrow(path: Path) -> Any:
    from pyarrow import ipc

    table = ipc.open_file(path).read_all().to_pandas()
    labels = table.pop("label") if "label" in table else []
    return table.to_numpy(np.float32), np.array(labels, str)


def read_judgements(path: Path) -> Any:
    from nearkin import datasets

    return datasets.read_judgements(path, np.arange(15), np.arange(60))


def naive_judgements(path: Path) -> Any:
    lines = [line.split("\t") for line in path.read_text("utf-8-sig").split("\n") if line.strip()]
    return np.array([(int(query), int(row), int(grade)) for query, row, grade in lines])


def read_labels(path: Path) -> Any:
    from nearkin import datasets

    return datasets.read_labels(path)


def naive_labels(path: Path) -> Any:
    return path.read_text("utf-8").splitlines()


def read_image(path: Path) -> Any:
    import nearkin

    return nearkin.load(HOME.folder / "LLC.safetensors").transform([str(path)])


def naive_image(path: Path) -> Any:
    """The same pixels as a clean PNG."""
    from PIL import Image, ImageOps

    import nearkin

    with Image.open(path) as image:
        clean = encoded(ImageOps.exif_transpose(image).convert("RGB"))
    return nearkin.load(HOME.folder / "LLC.safetensors").transform([clean])


def read_network(path: Path) -> Any:
    from nearkin.images import OnnxEncoder

    return OnnxEncoder(path, output="features").transform(material.images())


def naive_network(path: Path) -> Any:
    import onnxruntime

    from nearkin.images.reading import read_window

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    windows = [read_window(image, (16, 16), 0.875, "RGB") for image in material.images()]
    pixels = (np.stack(windows).astype(np.float32) - 127) / 128
    name = session.get_inputs()[0].name
    return session.run(["features"], {name: pixels.transpose(0, 3, 1, 2)})[0]


def read_list(path: Path) -> Any:
    from nearkin.images import ImageFolder

    folder = ImageFolder.from_csv(path)
    return [f"{p} {label}" for p, label in zip(folder.paths, folder.labels)]


def naive_list(path: Path) -> Any:
    lines = csv.reader(io.StringIO(path.read_text("utf-8-sig"), newline=""))
    here = Path(path).parent
    return [f"{p} {label}" for p, label in sorted((here / row[0], row[1]) for row in lines if row)]


def formats() -> list[Format]:
    models = sorted(p.name for p in HOME.folder.glob("*.safetensors"))
    pictures = sorted(str(p.relative_to(HOME.folder)) for p in HOME.folder.glob("images/*/*.*"))
    return [
        *(Format(m, read_model, unchanged, share=1) for m in models),
        *(Format(m, read_model, saved_again, mutations.valid_model, 6) for m in models),
        Format("rows.npy", read_rows, naive_npy, share=4),
        Format("rows.npz", read_rows, naive_npz, share=4),
        Format("rows.csv", read_rows, naive_csv, mutations.damaged_text, 4),
        Format("rows.parquet", read_rows, naive_parquet, share=2),
        Format("rows.arrow", read_rows, naive_arrow, share=2),
        Format("qrels.tsv", read_judgements, naive_judgements, mutations.damaged_text, 1),
        Format("labels.txt", read_labels, naive_labels, mutations.damaged_text, 1),
        Format("images.csv", read_list, naive_list, mutations.damaged_text, 2),
        Format("network.onnx", read_network, naive_network, share=3),
        *(Format(p, read_image, naive_image) for p in pictures),
    ]


def cases(seed: int, each: int = 25) -> Iterator[Case]:
    """`each` mutations of every file, times its share; folders of runs, too."""
    for format_ in formats():
        for n in range(each * format_.share):
            kind = "" if format_.mutate is mutations.damaged else f"{format_.mutate.__name__}/"
            name = f"{format_.file}/{kind}{n}"
            yield Case("files", name, lambda f=format_, n=n: _run(f, seeded(seed, f.file, n)))
    for n in range(each * 8):
        yield Case("files", f"run folder/{n}", lambda n=n: _folder(seeded(seed, "folder", n)))
    for name in mutations.CRAFTED:
        yield Case("files", f"crafted/{name}", lambda name=name: _crafted(name), memory=400 << 20)


def seeded(seed: int, name: str, n: int) -> np.random.Generator:
    return np.random.default_rng([seed, n, *name.encode()])


def _run(format_: Format, rng: np.random.Generator) -> Verdict:
    path = Path(format_.file).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    how = format_.mutate(HOME.folder / format_.file, path, rng)
    return read_and_compare(path, format_.read, format_.naive, how)


def read_and_compare(path: Path, read: Reader, naive: Reader | None, how: str) -> Verdict:
    names = (str(path), path.name, "model", "damaged", *how.split())
    try:
        result = read(path)
    except Exception as error:
        verdict = judge.of_error(error, names)
        return Verdict(verdict.outcome, f"{how}: {verdict.detail}")
    reason = judge.insane(result)
    if reason and "rows" not in path.name:  # rows are checked where they are used
        return Verdict("wrong", f"{how}: {reason}")
    if naive is None:
        return Verdict("unjudged", how)
    try:
        expected = naive(path)
    except Exception as error:
        return Verdict("wrong", f"{how}: read, where a naive reader says {error!r:.200}")
    return (
        FINE if judge.same(result, expected, 1e-3) else Verdict("wrong", f"{how}: other contents")
    )


def _folder(rng: np.random.Generator) -> Verdict:
    """A file of a run folder is damaged; the same work must notice, or end with the same result."""
    from hostile.works import library_works

    works = library_works()
    work = works[rng.integers(len(works))]
    clean = work.run(Path("run"))
    files = sorted(p for p in Path("run").rglob("*") if p.is_file() and p.stat().st_size)
    path = files[rng.integers(len(files))]
    mutate = mutations.damaged_text if path.suffix == ".json" else mutations.damaged
    how = f"{work.name} {path.name} {mutate(path, path, rng)}"
    try:
        again = work.run(Path("run"))
    except Exception as error:
        verdict = judge.of_error(error, (path.name, "run", "folder"))
        return Verdict(verdict.outcome, f"{how}: {verdict.detail}")
    return FINE if again == clean else Verdict("wrong", f"{how}: another result")


def _crafted(name: str) -> Verdict:
    path = Path(name).resolve()
    mutations.CRAFTED[name](path)
    read = read_model if path.suffix == ".safetensors" else read_rows
    read = read_image if path.suffix == ".png" else read
    return read_and_compare(path, read, None, "crafted")
