"""From images or vectors to an evaluated model, in stages whose outputs are kept.

::

    images ─ encoder.safetensors ─ features.npy ┐
    vectors ────────────────────────────────────┴ split.npz ─ preprocess.safetensors
        ─ retrieval.safetensors ─ neighbors.npz ─ model.safetensors ─ evaluation.json ┐
        │                                                       └ timing.json ────────┤
        └ baselines.json ─────────────────────────────────────────────────────────────┴ report.html
"""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

import nearkin
from nearkin.app import assessment, baselines, page
from nearkin.app.encoding import check_names, encode
from nearkin.app.extras import require_extras
from nearkin.app.labels import default_labels, read_labelled
from nearkin.app.run_files import (
    BASELINES,
    ENCODER,
    EVALUATION,
    EXTRACTION,
    FEATURES,
    IMAGES,
    LEARNING,
    MODEL,
    NEIGHBORS,
    PREPROCESS,
    REPORT,
    RETRIEVAL,
    SPLIT,
    TIMING,
)
from nearkin.app.settings import WITH_AUTO, TrainingSettings
from nearkin.app.stages import Stages
from nearkin.io.ids import pack
from nearkin.io.rows import link_or_copy
from nearkin.io.run_folder import RunFolder
from nearkin.io.tables import Columns
from nearkin.neighbors import nearest
from nearkin.preprocessing.transformers import last_columns, search_columns

BASELINE_SECONDS = 120.0  # time limit of each


@dataclass(frozen=True)
class DataSource:
    """A folder of images with its encoder, or a file of vectors."""

    path: Path
    labels: Path | None = None
    columns: Columns = field(default_factory=Columns)  # of a table
    encoder: Any = None  # by default LLC()
    skip_unreadable: bool = False


@dataclass(frozen=True)
class RunSettings:
    """Settings that determine the result of a run."""

    training: TrainingSettings = field(default_factory=TrainingSettings)
    test_share: float = 0.2
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunOptions:
    """Processes and progress reports, which do not change the result."""

    jobs: int = 1
    progress: Callable[[str], object] = lambda _: None  # called with the name of each stage
    epoch_callback: Callable[[], AbstractContextManager[Any]] = nullcontext
    verbose: int = 0


@dataclass(frozen=True)
class _Rows:
    X: Any
    y: NDArray[Any]
    paths: list[str] | None = None
    ids: NDArray[Any] | None = None

    def __getitem__(self, indices: Any) -> "_Rows":
        paths = None if self.paths is None else [self.paths[i] for i in indices]
        ids = None if self.ids is None else self.ids[indices]
        return _Rows(self.X[indices], self.y[indices], paths, ids)

    def save_with_ids(self, model: Any, path: Path) -> None:
        """Write a model that was fitted on these rows."""
        if self.ids is not None:
            model.ids_ = pack(self.ids)
        model.save(path)


def default_folder(source: Path) -> Path:
    """The run folder of a source for which none is given."""
    path = source.resolve()
    return Path("runs") / (path.name if path.is_dir() else path.stem)


def run(
    source: DataSource, folder: Path, settings: RunSettings, options: RunOptions | None = None
) -> dict[str, Any]:
    """Run the stages that are missing or out of date; return paths and the main results."""
    options = options or RunOptions()
    require_extras("the report of a run", "plots")
    _check(source, settings)
    with RunFolder(folder).claim("nearkin run") as claimed:
        stages = Stages(claimed, options.progress)
        rows, base = _rows(stages, source, options)
        train, test = (rows[part] for part in _split(stages, rows, settings, base))
        began, resumed = time.perf_counter(), stages.folder.sub(LEARNING).begun
        path = _model(stages, train, _training_settings(source, settings), base, options)
        seconds = None if resumed else _fit_seconds(stages, time.perf_counter() - began)
        timing = _json(stages, TIMING, lambda: {"fit_seconds": seconds})
        model = nearkin.load(path)
        raw = cache(lambda: baselines.fit_raw_cosine(train.X, train.y))
        result = _json(
            stages, EVALUATION, lambda: assessment.assess(model, test.X, test.y, raw()),
            "beside raw cosine",
        )  # fmt: skip
        compared = _json(
            stages, BASELINES,
            lambda: baselines.measure(
                train.X, train.y, test.X, test.y, settings.baselines, BASELINE_SECONDS
            ),
            settings.baselines,
        )  # fmt: skip
        report = stages.get(
            REPORT,
            lambda path: page.write(
                path, result, source.path.resolve().stem, compared,
                page.strips_of(model, test.X, test.y, train.paths, test.paths, raw),
                timing["fit_seconds"],
            ),
            after=[EVALUATION, BASELINES, TIMING],
        )  # fmt: skip
    names = ("top_1_raw", "top_1", "top_1_mean_per_class", "map_raw", "map_learned")
    found = {name: result[name] for name in names if name in result}
    return {"model": str(path), "report": str(report), **found,
            "done_before": stages.kept, "done_now": stages.made}  # fmt: skip


def _fit_seconds(stages: Stages, seconds: float) -> float | None:
    """The seconds, unless a part of the work had been done before."""
    return None if {MODEL, PREPROCESS, NEIGHBORS} & set(stages.kept) else seconds


def _training_settings(source: DataSource, settings: RunSettings) -> TrainingSettings:
    """The training settings, with the default power for the kind of features."""
    training = settings.training
    if training.power is not None or not source.path.is_dir():
        return training
    is_network = hasattr(source.encoder, "model")
    # Measured on Caltech-101: square roots of LLC codes are better neighbours than the codes.
    return replace(training, power=1.0 if is_network else 0.5)


def _check(source: DataSource, settings: RunSettings) -> None:
    if not source.path.exists():
        raise FileNotFoundError(f"{source.path} does not exist; give a folder of images or a file")
    settings.training.check()
    baselines.check_baselines(settings.baselines)
    if not 0 < settings.test_share < 1:
        raise ValueError(f"test_share={settings.test_share} must lie between 0 and 1")


def _json(stages: Stages, name: str, compute: Callable[[], Any], settings: Any = None) -> Any:
    """The result of a stage that measures the model, kept as JSON."""
    path = stages.get(name, lambda path: _write(path, compute()), settings, after=[MODEL])
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, result: Any) -> None:
    path.write_text(json.dumps(result, indent=1, default=np.generic.item), encoding="utf-8")


def _rows(stages: Stages, source: DataSource, options: RunOptions) -> tuple[_Rows, str]:
    """All rows, and the name of the source or stage that provides them."""
    if source.path.is_dir():
        return _features(stages, source, options), FEATURES
    labels = source.labels or default_labels(source.path)
    data = read_labelled(source.path, labels, source.columns)
    stages.folder.begin({"source": str(source.path.resolve())})
    stages.source("vectors", source.path, labels, settings=list(astuple(source.columns)))
    return _Rows(data.rows, np.asarray(data.labels), ids=data.ids), "vectors"


def _features(stages: Stages, source: DataSource, options: RunOptions) -> _Rows:
    from nearkin.images import LLC, ImageFolder

    images = ImageFolder(source.path.absolute())  # a later run may start in another directory
    check_names(images)
    stages.folder.begin({"source": str(source.path.resolve())})
    stages.source("images", *map(Path, images.paths))
    encoder = source.encoder or LLC()
    network = getattr(encoder, "model", None)
    stages.source("network", None if network is None else Path(network))
    settings = {"kind": type(encoder).__name__} | {
        name: str(value) for name, value in encoder.get_params().items()
    }
    fitted = stages.get(
        ENCODER, lambda path: nearkin.save(encoder.fit(images), path), settings,
        after=["images", "network"],
    )  # fmt: skip

    unfinished, after = stages.folder.sub(EXTRACTION), [ENCODER]

    def extract(path: Path) -> None:
        unfinished.begin(stages.inputs(source.skip_unreadable, after), stale="replace")
        rows, readable = encode(
            nearkin.load(fitted), images, source.skip_unreadable,
            folder=unfinished.sub("rows"), n_jobs=options.jobs,
        )  # fmt: skip
        skipped = np.flatnonzero(~readable).tolist()
        about = {"paths": images.paths, "labels": images.labels.tolist(), "skipped": skipped}
        stages.folder.file(
            IMAGES, {"skipped": skipped}, lambda path: _write(path, about), stale="replace"
        )
        link_or_copy(Path(rows.filename), path)  # type: ignore[attr-defined]

    if not stages.folder.is_intact(IMAGES):  # written with the features
        stages.folder.remove_file(FEATURES)
    path = stages.get(FEATURES, extract, source.skip_unreadable, after)
    unfinished.discard()
    skipped = json.loads(path.with_name(IMAGES).read_text(encoding="utf-8"))["skipped"]
    rows = _Rows(np.load(path, mmap_mode="r"), images.labels, images.paths)
    return rows if not skipped else rows[np.setdiff1d(np.arange(len(images)), skipped)]


def _split(
    stages: Stages, rows: _Rows, settings: RunSettings, base: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and test rows, stratified by class if every class is large enough."""
    seed, share = settings.training.seed, settings.test_share

    def draw(path: Path) -> None:
        n = len(rows.y)
        counts = np.unique(rows.y, return_counts=True)[1]
        enough = counts.min() >= 2 and len(counts) <= min(share, 1 - share) * n
        train, test = train_test_split(
            np.arange(n), test_size=share, random_state=seed,
            stratify=rows.y if enough else None,
        )  # fmt: skip
        with open(path, "wb") as file:
            np.savez(file, train=np.sort(train), test=np.sort(test))

    with np.load(stages.get(SPLIT, draw, [share, seed], after=[base])) as split:
        return split["train"], split["test"]


def _model(
    stages: Stages, rows: _Rows, settings: TrainingSettings, base: str, options: RunOptions
) -> Path:
    if settings.auto is not False:
        chosen = {name: getattr(settings, name) for name in WITH_AUTO}
        model = settings.classifier(rows.X.shape, verbose=options.verbose)
        return stages.get(
            MODEL, lambda path: rows.save_with_ids(model.fit(rows.X, rows.y), path), chosen,
            after=[base, SPLIT],
        )  # fmt: skip
    shape = rows.X.shape
    transformer = _fitted(stages, PREPROCESS, settings.transformer(shape), rows, base)
    index, searched, searches = settings.search_index(shape), transformer, PREPROCESS
    if isinstance(index, nearkin.Retrieval):
        searched, searches = _fitted(stages, RETRIEVAL, index.source, rows, base), RETRIEVAL
        index.source = searched
    k = min(settings.resolved(rows.X.shape).n_neighbors or 1, len(rows.y) - 1)
    columns = search_columns(transformer) if searched is transformer else 0
    lists = stages.get(
        NEIGHBORS,
        lambda path: _search(path, rows.X, searched, columns, k, settings.index, options.verbose),
        [k, settings.index, *([columns] if columns else [])], after=[base, SPLIT, searches],
    )  # fmt: skip

    learning, after = stages.folder.sub(LEARNING), [NEIGHBORS, PREPROCESS]

    def fit(path: Path) -> None:
        learning.begin(stages.inputs(asdict(settings), after), stale="replace")
        with np.load(lists) as file, options.epoch_callback() as callback:
            model = settings.classifier(rows.X.shape, callback, options.jobs)
            model.set_params(preprocess=transformer, index=index)
            model.fit(rows.X, rows.y, neighbors=file["indices"], folder=learning)
        if getattr(model.similarity_, "interrupted_", False):
            raise KeyboardInterrupt  # only a complete model is kept
        rows.save_with_ids(model, path)

    path = stages.get(MODEL, fit, asdict(settings), after)
    learning.discard()
    return path


def _fitted(stages: Stages, name: str, unfitted: Any, rows: _Rows, base: str) -> Any:
    """A transformer, fitted on the rows, or None."""

    def fit(path: Path) -> None:
        if unfitted is None:
            path.write_bytes(b"")
        else:
            nearkin.save(unfitted.fit(rows.X), path)

    description = None if unfitted is None else " ".join(repr(unfitted).split())
    path = stages.get(name, fit, description, after=[base, SPLIT])
    return None if unfitted is None else nearkin.load(path)


def _search(
    path: Path, X: Any, transformer: Any, columns: int, k: int, index: str, verbose: int
) -> None:
    """The nearest rows in the last `columns`, or all, of what a transformer makes of them."""
    rows = X if transformer is None else transformer.transform(X)
    distances, indices = nearest(last_columns(rows, columns), k, index=index, verbose=verbose)
    with open(path, "wb") as file:
        np.savez(file, indices=indices, distances=distances)
