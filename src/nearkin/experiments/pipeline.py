"""From images or vectors to an evaluated model, in stages that are kept.

A stage's output is one file, with a note beside it that says what it was made from. A stage is
done again only if that has changed: its own settings, or the output of the stage before.
"""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import nearkin
from nearkin import datasets
from nearkin._files import replacing
from nearkin._rules import RULES
from nearkin._validation import check_choice, check_number
from nearkin.experiments import assessment


@dataclass(frozen=True)
class Settings:
    """What a run can be told."""

    rule: str = "softmax"
    n_neighbors: int = 50
    components: int | None = None
    whitening: float = 0.5
    epochs: int = 20
    test_share: float = 0.2
    seed: int = 0


def run(
    source: Path,
    out: Path,
    settings: Settings,
    labels: Path | None = None,
    label_column: str | None = None,
    jobs: int = 1,
) -> dict[str, Any]:
    """Run what is not done yet; return where things are and how good the model is."""
    _check(source, settings)
    out.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        stages = _Stages(out)
        rows, truth = _vectors(stages, source, labels, label_column, settings, jobs)
        train, test = train_test_split(
            np.arange(len(truth)), test_size=settings.test_share, random_state=settings.seed
        )
        key = asdict(settings)
        model = stages.get(
            "model.safetensors", key, lambda path: _fit(rows, truth, train, settings).save(path)
        )
        fitted = nearkin.load(model)
        numbers = stages.get(
            "evaluation.json", {}, lambda path: _evaluate(fitted, rows[test], truth[test], path)
        )
        page = stages.get("report.html", {}, lambda path: _report(numbers, path))
    result = json.loads(numbers.read_text())
    return {"model": str(model), "report": str(page), "top_1": result["top_1"],
            "map_plain": result["map_plain"], "map_learned": result["map_learned"],
            "done_before": stages.kept, "done_now": stages.made}  # fmt: skip


def _check(source: Path, settings: Settings) -> None:
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; give a folder of images or a file")
    check_choice("rule", settings.rule, RULES)
    check_number("n_neighbors", settings.n_neighbors, 1)
    if not 0 < settings.test_share < 1:
        raise ValueError(f"test_share={settings.test_share} must lie between 0 and 1")


def _vectors(
    stages: "_Stages",
    source: Path,
    labels: Path | None,
    column: str | None,
    settings: Settings,
    jobs: int,
) -> tuple[Any, Any]:
    if not source.is_dir():
        data = datasets.read(source, labels, column)
        if data.labels is None:
            raise ValueError(f"{source} has no labels; give --labels FILE or --label-column NAME")
        stages.seen(source, labels)
        return data.rows, data.labels
    from nearkin.images import LLC, ImageFolder

    folder = ImageFolder(source)
    stages.seen(*map(Path, folder.paths))

    def extract(path: Path) -> None:
        LLC(random_state=settings.seed).fit(folder).transform(folder, out=path, n_jobs=jobs)

    # Extraction resumes by itself, from files of its own beside the feature file.
    rows = stages.get("features.npy", {"seed": settings.seed}, extract, aside=False)
    return np.load(rows, mmap_mode="r"), folder.labels


def _fit(rows: Any, labels: Any, train: Any, settings: Settings) -> Any:
    learner = nearkin.SLNE(
        n_neighbors=settings.n_neighbors, rule=settings.rule, max_epochs=settings.epochs
    )
    most = min(len(train), rows.shape[1])
    components = settings.components or min(most, 3_000)
    model = nearkin.SoftVotingKNN(
        learner,
        n_neighbors=settings.n_neighbors,
        preprocess=nearkin.Preprocess(components, whitening=settings.whitening),
        random_state=settings.seed,
    )
    return model.fit(rows[np.sort(train)], np.asarray(labels)[np.sort(train)])


def _evaluate(model: Any, rows: Any, truth: Any, path: Path) -> None:
    path.write_text(json.dumps(assessment.assess(model, rows, truth)))


def _report(numbers: Path, path: Path) -> None:
    assessment.write_report(path, json.loads(numbers.read_text()), "nearkin run")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system lets go of however the process ends."""
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"another process is at work in {folder}; wait for it or give another folder"
            ) from None
        yield


class _Stages:
    """Outputs of a run folder, each with a note of what it was made from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.chain = folder, ""
        self.kept: list[str] = []
        self.made: list[str] = []

    def seen(self, *files: Path | None) -> None:
        """Let everything that follows depend on these files."""
        stats = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f is not None]
        self.chain = _digest(self.chain, stats)

    def get(
        self, name: str, settings: Any, make: Callable[[Path], None], aside: bool = True
    ) -> Path:
        """The output `name`, made now unless it is there and made from the same."""
        self.chain = _digest(self.chain, name, settings)
        path, note = self.folder / name, self.folder / f"{name}.made-from"
        if path.exists() and note.exists() and note.read_text() == self.chain:
            self.kept.append(name)
            return path
        note.unlink(missing_ok=True)
        if aside:
            with replacing(path) as part:
                make(part)
        else:
            path.unlink(missing_ok=True)
            make(path)
        with replacing(note) as part:
            part.write_text(self.chain)
        self.made.append(name)
        return path


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()
