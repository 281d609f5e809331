"""Requests to answers: queries read, searched in batches, ranked and voted on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.serve import schemas
from nearkin.serve.batching import Batcher, Workers
from nearkin.serve.errors import Refused, refusing
from nearkin.serve.pictures import decode_upload, encode_uploads
from nearkin.serve.searched import LEARNED, RAW, SearchedSide, Shortlist
from nearkin.validation.arrays import as_rows

if TYPE_CHECKING:
    from nearkin.serve.engine import Engine

LIGHT = 16  # queries that are not worth a thread
KINDS = ("vectors", "rows", "images")


@dataclass(frozen=True)
class Asked:
    """Queries: vectors as they were given, or stored rows."""

    vectors: Any = None
    rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.vectors if self.rows is None else self.rows)


class Answers:
    """Answers to the three questions, on threads of their own."""

    def __init__(self, workers: Workers, batcher: Batcher) -> None:
        self.workers, self.batcher = workers, batcher

    async def search(self, engine: "Engine", body: schemas.Search) -> dict[str, Any]:
        """The most similar rows of each query."""
        engine.require("search")
        names = _chosen(engine, body)
        most = min(engine.sides[name].shortlist for name in names)
        if body.n > most and "n" in body.model_fields_set:
            raise Refused(422, f"n={body.n} must lie between 1 and {most}, the shortlist", "n")
        members = None if body.label is None else engine.members(str(body.label))
        asked, found = await self._asked(engine, body), {}
        for name in names:
            side = engine.sides[name]
            near = await (
                self._near(side, asked)
                if members is None
                else self.workers.run(_near_in_class, side, asked, members)
            )
            found[name] = await self._ranked(engine, near, min(body.n, most))
        queries = [dict(zip(found, hits)) for hits in zip(*found.values())]
        return {"model": engine.version, "queries": queries}

    async def classify(self, engine: "Engine", body: schemas.Classify) -> dict[str, Any]:
        """The most probable classes of each query."""
        engine.require("classify")
        n = len(engine.classes)
        if body.top > n and "top" in body.model_fields_set:
            raise Refused(422, f"top={body.top} must lie between 1 and the {n} classes", "top")
        asked = await self._asked(engine, body)
        near = await self._near(engine.learned, asked)
        with refusing("vectors"):
            queries = await self.workers.run(_decisions, engine, near, min(body.top, n), body.votes)
        return {"model": engine.version, "queries": queries}

    async def transform(self, engine: "Engine", body: schemas.Transform) -> dict[str, Any]:
        """What to ask an index of vectors as they are."""
        adapter = engine.adapter
        asked = await self._asked(engine, body)
        if asked.rows is not None and engine.given is None:
            raise Refused(409, f"rows as they were given are not known: {engine.no_raw}", "rows")
        vectors = asked.vectors if asked.rows is None else engine.given[asked.rows]
        with refusing("vectors"):
            adapted = await self.workers.run(lambda: adapter.transform(vectors))
        if not np.isfinite(adapted).all():
            raise Refused(422, "vectors are too large: the result is beyond float32", "vectors")
        return {"model": engine.version, "metric": adapter.metric, "vectors": adapted.tolist()}

    async def _asked(self, engine: "Engine", body: schemas.Queries) -> Asked:
        """The one kind of queries that was given, checked."""
        given = [kind for kind in KINDS if getattr(body, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise Refused(
                422, f"exactly one of vectors, rows and images is expected, {found} was given",
                given[-1] if given else "vectors",
            )  # fmt: skip
        (kind,) = given
        if not getattr(body, kind):
            raise Refused(422, f"{kind} is empty; give at least one", kind)
        if kind == "rows":
            engine.require("ask_rows", "rows")
            return Asked(rows=_rows(body.rows or [], engine.n_rows))
        if kind == "vectors":
            return Asked(_vectors(body.vectors or [], engine.model.n_features_in_))
        return Asked(await self.workers.run(_encoded, engine, body.images or []))

    async def _near(self, side: SearchedSide, asked: Asked) -> Shortlist:
        if asked.rows is not None:
            near = await self.batcher.search(side.near_stored, asked.rows)
            return side.without_own(near, asked.rows)
        with refusing("vectors"):
            near = await self.batcher.search(side.near_vectors, asked.vectors)
            return side.without_own(near, None)

    async def _ranked(self, engine: "Engine", near: Shortlist, n: int) -> list[Any]:
        with refusing("vectors"):
            if len(near.queries) <= LIGHT:
                return engine.hits(near, n)
            return await self.workers.run(engine.hits, near, n)


def _chosen(engine: "Engine", body: schemas.Search) -> list[str]:
    names = list(engine.sides) if body.similarities is None else list(body.similarities)
    if RAW in names and RAW not in engine.sides:
        raise Refused(409, engine.no_raw, "similarities")
    return [name for name in (RAW, LEARNED) if name in names]


def _rows(rows: list[int], n: int) -> NDArray[np.int64]:
    for place, row in enumerate(rows):
        if not 0 <= row < n:
            raise Refused(
                422, f"rows[{place}]={row} must lie between 0 and {n - 1}, the last stored row",
                f"rows[{place}]",
            )  # fmt: skip
    return np.array(rows, np.int64)


def _vectors(vectors: list[list[float]], width: int) -> NDArray[np.float32]:
    for place, vector in enumerate(vectors):
        if len(vector) != width:
            raise Refused(
                422, f"vectors[{place}] has {len(vector)} numbers; the model expects {width}",
                f"vectors[{place}]",
            )  # fmt: skip
    with refusing("vectors"), np.errstate(over="ignore"):
        return as_rows(np.array(vectors, np.float32), "vectors")


def _encoded(engine: "Engine", images: list[str]) -> NDArray[np.float32]:
    encoder = engine.trained.encoder
    if encoder is None:
        raise Refused(
            409, "this model has no encoder for images; serve a run on images, or give --encoder",
            "images",
        )  # fmt: skip
    uploads = [decode_upload(text, f"images[{i}]") for i, text in enumerate(images)]
    rows = encode_uploads(encoder, uploads, "images")
    with refusing("images"):
        return as_rows(rows, "images", engine.model.n_features_in_)


def _near_in_class(side: SearchedSide, asked: Asked, members: NDArray[np.int64]) -> Shortlist:
    with refusing("vectors"):
        return side.near_in_class(asked.vectors, asked.rows, members)


def _decisions(engine: "Engine", near: Shortlist, top: int, votes: bool) -> list[dict[str, Any]]:
    """The most probable classes, and whose votes made them so."""
    side, labels = engine.voting, engine.model.labels_
    shares = side.shares(near)
    p = shares.probabilities(labels)
    novelty = side.novelty(near).astype(float)
    order = np.argsort(-p, axis=1, kind="stable")[:, :top]
    limit = getattr(engine.model, "novelty_threshold_", None)
    found = []
    for i, best in enumerate(order.tolist()):
        parts = zip(best, p[i, best], shares.class_means[i, best], shares.prior[i, best])
        known = np.isfinite(novelty[i])
        one = {
            "classes": [_class_share(engine.classes[c], *map(float, part)) for c, *part in parts],
            "novelty": round(novelty[i], 6) if known else None,
            "unknown": None if limit is None else bool(novelty[i] > limit),
        }
        if votes:
            one["votes"] = _voters(engine, near, i, shares.neighbors[i])
        found.append(one)
    return found


def _class_share(label: Any, p: float, mean: float, prior: float) -> dict[str, Any]:
    parts = {"probability": p, "neighbors": max(0.0, p - mean - prior)}
    parts |= {"class_mean": mean, "prior": prior}
    return {"label": label} | {name: round(value, 6) for name, value in parts.items()}


def _voters(engine: "Engine", near: Shortlist, i: int, shares: Any) -> list[dict[str, Any]]:
    """Rows on the shortlist, the one that voted most first."""
    order = np.lexsort((-near.scores[i], -shares))
    return [
        engine.row(near.indices[i, j])
        | {"similarity": round(float(near.scores[i, j]), 6), "share": round(float(shares[j]), 6)}
        for j in order
        if near.indices[i, j] >= 0
    ]
