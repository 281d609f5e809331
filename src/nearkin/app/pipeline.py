"""From images or vectors to an evaluated model, in stages that are kept.

::

    images ─ encoder.safetensors ─ features.npy ┐
    vectors ────────────────────────────────────┴ split.npz ─ preprocess.safetensors
        ─ neighbors.npz ─ model.safetensors ─ evaluation.json ┐
        └ baselines.json ─────────────────────────────────────┴ report.html
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

import nearkin
from nearkin import datasets
from nearkin.app import assessment, baselines, page
from nearkin.app.encoding import encode
from nearkin.app.settings import Settings
from nearkin.app.stages import Stages
from nearkin.io.rows import link_or_copy
from nearkin.io.run_folder import RunFolder
from nearkin.neighbors import nearest

ENCODER, FEATURES, IMAGES = "encoder.safetensors", "features.npy", "images.json"
SPLIT, PREPROCESS, NEIGHBORS = "split.npz", "preprocess.safetensors", "neighbors.npz"
# Sections of the run folder for what is unfinished.
EXTRACTION, LEARNING = "extraction", "learning"
MODEL, NUMBERS, BASELINES, PAGE = (
    "model.safetensors", "evaluation.json", "baselines.json", "report.html",
)  # fmt: skip


TIME_LIMIT = 120.0  # seconds for a baseline


@dataclass(frozen=True)
class Source:
    """Where rows come from: a folder of images with its encoder, or a file of vectors."""

    path: Path
    labels: Path | None = None
    label_column: str | None = None
    encoder: Any = None  # LLC() if left out
    skip_unreadable: bool = False


@dataclass(frozen=True)
class Plan:
    """What to do with the rows."""

    settings: Settings = field(default_factory=Settings)
    test_share: float = 0.2
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True)
class How:
    """What does not change the result: processes, and whom to tell."""

    jobs: int = 1
    say: Callable[[str], object] = lambda _: None
    watch: Callable[[], AbstractContextManager[Any]] = nullcontext  # gives a callback for epochs
    verbose: int = 0


@dataclass(frozen=True)
class _Rows:
    X: Any
    y: NDArray[Any]
    paths: list[str] | None = None

    def __getitem__(self, which: Any) -> "_Rows":
        paths = None if self.paths is None else [self.paths[i] for i in which]
        return _Rows(self.X[which], self.y[which], paths)


def usual_folder(source: Path) -> Path:
    """Where a run is kept if nobody says otherwise."""
    whole = source.resolve()
    return Path("runs") / (whole.name if whole.is_dir() else whole.stem)


def run(source: Source, folder: Path, plan: Plan, how: How | None = None) -> dict[str, Any]:
    """Run what is not done yet; return where things are and how good the model is."""
    how = how or How()
    _check(source, plan)
    with RunFolder(folder).claim("nearkin run") as claimed:
        stages = Stages(claimed, how.say)
        rows, base = _rows(stages, source, how)
        train, test = _split(stages, rows, plan, base)
        known, asked = rows[train], rows[test]
        model = _model(stages, known, _settings(source, plan.settings), base, how)
        fitted = nearkin.load(model)
        numbers = stages.get(
            NUMBERS, lambda path: _write(path, assessment.assess(fitted, asked.X, asked.y)),
            after=[MODEL],
        )  # fmt: skip
        others = stages.get(
            BASELINES,
            lambda path: _write(
                path, baselines.measure(fitted, asked.X, asked.y, plan.baselines, TIME_LIMIT)
            ),
            plan.baselines, after=[MODEL],
        )  # fmt: skip
        shown = stages.get(
            PAGE,
            lambda path: page.write(
                path, json.loads(numbers.read_text()), source.path.resolve().stem,
                json.loads(others.read_text()),
                page.strips_of(fitted, asked.X, asked.y, known.paths, asked.paths),
            ),
            after=[NUMBERS, BASELINES],
        )  # fmt: skip
    result = json.loads(numbers.read_text())
    names = ("top_1", "top_1_mean_per_class", "map_plain", "map_learned")
    return {"model": str(model), "report": str(shown), **{name: result[name] for name in names},
            "done_before": stages.kept, "done_now": stages.made}  # fmt: skip


def _settings(source: Source, settings: Settings) -> Settings:
    """The same with what depends on the kind of features decided."""
    if settings.power is not None or not source.path.is_dir():
        return settings
    is_network = hasattr(source.encoder, "model")
    # Measured on Caltech-101: square roots of LLC codes are better neighbours than the codes.
    return replace(settings, power=1.0 if is_network else 0.5)


def _check(source: Source, plan: Plan) -> None:
    if not source.path.exists():
        raise FileNotFoundError(f"{source.path} does not exist; give a folder of images or a file")
    plan.settings.check()
    baselines.check_baselines(plan.baselines)
    if not 0 < plan.test_share < 1:
        raise ValueError(f"test_share={plan.test_share} must lie between 0 and 1")


def _write(path: Path, result: Any) -> None:
    path.write_text(json.dumps(result, indent=1, default=_number), encoding="utf-8")


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def _rows(stages: Stages, source: Source, how: How) -> tuple[_Rows, str]:
    """All rows, and the name of the source or stage that they come from."""
    if source.path.is_dir():
        return _features(stages, source, how), FEATURES
    data = datasets.read(source.path, source.labels, source.label_column)
    if data.labels is None:
        raise ValueError(f"{source.path} has no labels; give --labels FILE or --label-column NAME")
    datasets.check_finite(data.rows, source.path)
    stages.folder.begin({"source": str(source.path.resolve())})
    stages.source("vectors", source.path, source.labels)
    return _Rows(data.rows, np.asarray(data.labels)), "vectors"


def _features(stages: Stages, source: Source, how: How) -> _Rows:
    from nearkin.images import LLC, ImageFolder

    folder = ImageFolder(source.path.absolute())  # the page may be made from elsewhere
    stages.folder.begin({"source": str(source.path.resolve())})
    stages.source("images", *map(Path, folder.paths))
    encoder = source.encoder or LLC()
    network = getattr(encoder, "model", None)
    stages.source("network", None if network is None else Path(network))
    settings = {"kind": type(encoder).__name__} | {
        name: str(value) for name, value in encoder.get_params().items()
    }
    made = stages.get(
        ENCODER, lambda path: nearkin.save(encoder.fit(folder), path), settings,
        after=["images", "network"],
    )  # fmt: skip

    unfinished, after = stages.folder.sub(EXTRACTION), [ENCODER]

    def extract(path: Path) -> None:
        unfinished.begin(stages.inputs(source.skip_unreadable, after), stale="replace")
        rows, kept = encode(
            nearkin.load(made), folder, source.skip_unreadable,
            folder=unfinished.sub("rows"), n_jobs=how.jobs,
        )  # fmt: skip
        lost = np.flatnonzero(~kept).tolist()
        about = {"paths": folder.paths, "labels": folder.labels.tolist(), "lost": lost}
        stages.folder.file(IMAGES, {"lost": lost}, lambda p: _write(p, about), stale="replace")
        link_or_copy(Path(rows.filename), path)  # type: ignore[attr-defined]

    if not stages.folder.is_intact(IMAGES):  # it comes with the features
        stages.folder.remove_file(FEATURES)
    path = stages.get(FEATURES, extract, source.skip_unreadable, after)
    unfinished.discard()
    lost = json.loads(path.with_name(IMAGES).read_text())["lost"]
    rows = _Rows(np.load(path, mmap_mode="r"), folder.labels, folder.paths)
    return rows if not lost else rows[np.setdiff1d(np.arange(len(folder)), lost)]


def _split(
    stages: Stages, rows: _Rows, plan: Plan, base: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to learn from and rows to test on: each class in its share, where it is large enough."""
    seed = plan.settings.seed

    def draw(path: Path) -> None:
        n = len(rows.y)
        counts = np.unique(rows.y, return_counts=True)[1]
        enough = counts.min() >= 2 and len(counts) <= min(plan.test_share, 1 - plan.test_share) * n
        train, test = train_test_split(
            np.arange(n), test_size=plan.test_share, random_state=seed,
            stratify=rows.y if enough else None,
        )  # fmt: skip
        with open(path, "wb") as file:
            np.savez(file, train=np.sort(train), test=np.sort(test))

    with np.load(stages.get(SPLIT, draw, [plan.test_share, seed], after=[base])) as split:
        return split["train"], split["test"]


def _model(stages: Stages, rows: _Rows, settings: Settings, base: str, how: How) -> Path:
    shape = rows.X.shape
    if settings.tune:
        chosen = {"tune_rows": settings.tune_rows, "seed": settings.seed}
        return stages.get(
            MODEL,
            lambda path: nearkin.tune(
                rows.X, rows.y, max_rows=settings.tune_rows, random_state=settings.seed,
                verbose=how.verbose,
            ).save(path),
            chosen, after=[base, SPLIT],
        )  # fmt: skip
    transformer = _preprocess(stages, rows, settings, base)
    final = settings.resolved(*shape)
    k = min(final.n_neighbors or 1, len(rows.y) - 1)
    lists = stages.get(
        NEIGHBORS, lambda path: _search(path, rows.X, transformer, k, settings.index, how.verbose),
        [k, settings.index], after=[base, SPLIT, PREPROCESS],
    )  # fmt: skip

    learning, after = stages.folder.sub(LEARNING), [NEIGHBORS]

    def fit(path: Path) -> None:
        where: dict[str, Any] = {"n_jobs": how.jobs}
        learning.begin(stages.inputs(settings.as_dict(), after), stale="replace")
        with np.load(lists) as file, how.watch() as callback:
            model = settings.classifier(shape[0], shape[1], callback, where)
            model.set_params(preprocess=transformer)
            model.fit(rows.X, rows.y, neighbors=file["indices"], folder=learning)
        if getattr(model.similarity_, "interrupted_", False):
            raise KeyboardInterrupt  # a model that is kept is complete
        model.save(path)

    path = stages.get(MODEL, fit, settings.as_dict(), after)
    learning.discard()
    return path


def _preprocess(stages: Stages, rows: _Rows, settings: Settings, base: str) -> Any:
    """The fitted preprocessing, or None."""
    made = settings.transformer(*rows.X.shape)

    def fit(path: Path) -> None:
        if made is None:
            path.write_bytes(b"")
        else:
            nearkin.save(made.fit(rows.X), path)

    chosen = None if made is None else " ".join(repr(made).split())
    path = stages.get(PREPROCESS, fit, chosen, after=[base, SPLIT])
    return None if made is None else nearkin.load(path)


def _search(path: Path, X: Any, transformer: Any, k: int, index: str, verbose: int) -> None:
    rows = X if transformer is None else transformer.transform(X)
    distances, indices = nearest(rows, k, index=index, verbose=verbose)
    with open(path, "wb") as file:
        np.savez(file, indices=indices, distances=distances)


@dataclass(frozen=True)
class Finished:
    """A model, the encoder that goes with it, and the images of its rows, as far as known."""

    model: Any
    encoder: Any = None
    names: list[str] | None = None


def opened(folder: Path) -> Finished:
    """The model of a run folder, with what is needed to use it on images."""
    if not (folder / MODEL).exists():
        raise FileNotFoundError(
            f"{folder} holds no {MODEL}; give a folder that 'nearkin run' has finished, or a model"
        )
    model = nearkin.load(folder / MODEL)
    if not (folder / ENCODER).exists():
        return Finished(model)
    images = json.loads((folder / IMAGES).read_text(encoding="utf-8"))
    kept = np.setdiff1d(np.arange(len(images["paths"])), images["lost"])
    with np.load(folder / SPLIT) as split:
        names = [images["paths"][kept[i]] for i in split["train"]]
    return Finished(model, nearkin.load(folder / ENCODER), names)
