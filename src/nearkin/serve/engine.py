"""A loaded model or run, and what can be asked about it: rows, neighbours, votes, vectors."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.app.baselines import NO_MEMORY, NO_RAW, fit_raw_cosine
from nearkin.app.finished_run import TrainedModel
from nearkin.serve.adapted import AdaptedModel, adapted_sides, refusals
from nearkin.serve.errors import Refused
from nearkin.serve.maps import MapTask
from nearkin.serve.review import ReviewTask
from nearkin.serve.searched import LEARNED, RAW, SearchedSide, Shortlist
from nearkin.serve.side import Side

LISTED_CLASSES = 2_000  # of more, only their number is sent


def plain(value: Any) -> Any:
    """A label or id as JSON can hold it: dates become text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@dataclass(frozen=True)
class Engine:
    """A model that answers; nothing of it changes, so that requests may share it.

    Attributes
    ----------
    trained : the model, its encoder and the names of its rows
    given : the training rows as they were given, if they are known
    sides : by name, what is searched: raw cosine, if its rows are known, and the learned similarity
    no_raw : why there is no raw cosine, or ""
    refused : what cannot be asked, and why
    """

    trained: TrainedModel
    given: Any
    sides: Mapping[str, SearchedSide]
    no_raw: str
    refused: Mapping[str, str] = field(default_factory=dict)
    version: str = field(default_factory=lambda: f"{time.time_ns():x}")

    @property
    def model(self) -> Any:
        """The classifier, or an `AdaptedModel`."""
        return self.trained.model

    @property
    def learned(self) -> SearchedSide:
        """The learned similarity."""
        return self.sides[LEARNED]

    @property
    def voting(self) -> Side:
        """The learned similarity of a classifier, whose rows vote."""
        self.require("classify")
        return self.learned  # type: ignore[return-value]

    def require(self, what: str, field: str | None = None) -> None:
        """Refuse what cannot be asked of this model."""
        if what in self.refused:
            raise Refused(409, self.refused[what], field)

    @property
    def n_rows(self) -> int:
        """Stored rows."""
        return len(self.model.labels_)

    @cached_property
    def classes(self) -> list[Any]:
        """The labels of the classes, as JSON holds them; None for all rows that have none."""
        if not self.labelled:
            return [None]
        return [plain(label) for label in self.model.classes_]

    @cached_property
    def labelled(self) -> bool:
        """Whether rows have labels."""
        return bool(getattr(self.model, "labelled", True))

    @cached_property
    def _class_of(self) -> dict[str, int]:
        return {str(label): place for place, label in reversed(list(enumerate(self.classes)))}

    @cached_property
    def _by_class(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows in the order of their classes, and where each class begins."""
        counts = np.bincount(self.model.labels_, minlength=len(self.classes))
        return np.argsort(self.model.labels_, kind="stable"), np.append(0, np.cumsum(counts))

    @cached_property
    def _root(self) -> str:
        """What the names of all rows begin with; a path of the server, not for clients."""
        names = self.trained.names or [""]
        return os.path.commonpath([os.path.dirname(min(names)), os.path.dirname(max(names))])

    @cached_property
    def review(self) -> ReviewTask:
        """Every row asked for the others: confusions and likely wrong labels."""
        return ReviewTask(self.voting)

    @cached_property
    def map(self) -> MapTask:
        """A sample of the rows in two dimensions, under each similarity."""
        return MapTask(self.sides)

    @cached_property
    def adapter(self) -> Any:
        """The similarity as a map of queries; refused where a model has none."""
        try:
            return self.model.adapter()
        except (ValueError, TypeError) as error:
            raise Refused(409, f"this model has no adapter: {error}") from None

    def close(self) -> None:
        """End background work that has been started."""
        for name in ("review", "map"):
            if name in vars(self):
                vars(self)[name].stop()

    def place(self, label: str, field: str = "label") -> int:
        """The place of a class among all; labels are compared as text."""
        if not self.labelled:
            raise Refused(409, "the rows of this model have no labels; give --labels FILE", field)
        if label not in self._class_of:
            raise Refused(422, f"{field} {label[:80]!r} is no class of the model", field)
        return self._class_of[label]

    def members(self, label: str) -> NDArray[np.int64]:
        """The rows of a class."""
        order, starts = self._by_class
        place = self.place(label)
        return order[starts[place] : starts[place + 1]]

    def row(self, row: int) -> dict[str, Any]:
        """A stored row: its number, its label, and its name or id if there is one."""
        found: dict[str, Any] = {"row": int(row)}
        if self.labelled:
            found["label"] = self.classes[self.model.labels_[row]]
        if self.trained.names is not None:
            found["name"] = os.path.relpath(self.trained.names[row], self._root or None)
        if self.trained.ids is not None:
            found["id"] = plain(self.trained.ids[row])
        return found

    def hits(self, found: Shortlist, n: int) -> list[list[dict[str, Any]]]:
        """For each query the most similar rows of its shortlist, best first."""
        if not (np.isfinite(found.scores) | (found.indices < 0)).all():
            raise ValueError("vectors are too large: their similarities are beyond float32")
        order = np.argsort(-found.scores, axis=1, kind="stable")[:, :n]
        queries = np.arange(len(order))[:, None]
        scores = found.scores[queries, order].astype(float).round(6).tolist()
        places = found.indices[queries, order].tolist()
        return [
            [self.row(row) | {"similarity": score} for row, score in zip(*one) if row >= 0]
            for one in zip(places, scores)
        ]

    def describe(self) -> dict[str, Any]:
        """What the page, or a client, needs to know first."""
        model, classes = self.model, self.classes if self.labelled else []
        return {
            "model": self.version,
            "rows": self.n_rows,
            "columns": int(model.n_features_in_),
            "n_classes": len(classes),
            "classes": classes if len(classes) <= LISTED_CLASSES else None,
            "similarities": list(self.sides),
            "no_raw": self.no_raw or None,
            "learner": _learner(model),
            "most": min((side.shortlist for side in self.sides.values()), default=0),
            "refused": dict(self.refused),
            "images": self.trained.encoder is not None,
            "pictures": self.trained.names is not None,
            "novelty_threshold": getattr(model, "novelty_threshold_", None),
        }


def _learner(model: Any) -> str:
    if isinstance(model, AdaptedModel):
        return model.learner
    return "none" if model.similarity_ is None else type(model.similarity_).__name__


def open_engine(trained: TrainedModel, given: Any) -> Engine:
    """A model made ready to answer; `given` are its training rows as they were given, or None."""
    if hasattr(trained.encoder, "batch_size"):  # a network would compute a whole batch for one
        trained.encoder.set_params(batch_size=1)
    if isinstance(trained.model, AdaptedModel):
        return _open_adapted(trained, trained.model)
    learned, raw = Side(trained.model), None
    if given is not None:
        raw = fit_raw_cosine(given, trained.model.classes_[trained.model.labels_])
    no_raw = "" if raw is not None else NO_RAW if given is None else NO_MEMORY
    engine = Engine(trained, given, _sides(raw and Side(raw), learned), no_raw)
    engine.members(str(engine.classes[0])), engine.row(0)  # tables of all rows, made here
    return engine


def _open_adapted(trained: TrainedModel, model: AdaptedModel) -> Engine:
    raw, learned = adapted_sides(model)
    refused = refusals(model)
    no_raw = "" if raw is not None else refused.get("ask_rows", NO_MEMORY)
    given = model.rows if model.compares_rows else None
    engine = Engine(trained, given, _sides(raw, learned), no_raw, refused)
    if engine.labelled:
        engine.members(str(engine.classes[0]))
    return engine


def _sides(raw: SearchedSide | None, learned: SearchedSide | None) -> dict[str, SearchedSide]:
    known = {RAW: raw, LEARNED: learned}
    return {name: side for name, side in known.items() if side is not None}
