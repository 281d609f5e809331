"""The endpoints under ``/v1``."""

import csv
import io
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from nearkin.serve import schemas
from nearkin.serve.bodies import BodyRoute
from nearkin.serve.errors import Json, Refused
from nearkin.serve.pictures import picture
from nearkin.serve.review import Suspect
from nearkin.serve.state import State

if TYPE_CHECKING:
    from nearkin.serve.engine import Engine

Row = Annotated[int, Path(ge=0)]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=200)]
LabelQuery = Annotated[str | None, Query(description="Rows of this class only.")]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Problem, "description": text}
    for status, text in {
        401: "A token is needed.", 403: "A page of another site asks.",
        409: "This model cannot do that.", 413: "Too large.", 422: "A field is wrong: see `field`.",
        503: "Too many wait; see Retry-After.",
    }.items()
}  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would compute


def routes(state: State) -> APIRouter:
    """All endpoints, on this state."""
    router = APIRouter(prefix="/v1", responses=PROBLEMS)
    questions = APIRouter(route_class=BodyRoute)
    _add_questions(questions, state)
    router.include_router(questions)
    _add_rows(router, state)
    _add_review(router, state)
    return router


def _add_questions(router: APIRouter, state: State) -> None:
    @router.post("/search", responses={200: {"model": schemas.SearchAnswer}})
    async def search(body: schemas.Search) -> Response:
        """The most similar stored rows, by raw cosine and by the learned similarity."""
        return Json(await state.answers.search(state.engine, body))

    @router.post("/classify", responses={200: {"model": schemas.ClassifyAnswer}})
    async def classify(body: schemas.Classify) -> Response:
        """The most probable classes; with `votes`, how much each neighbour voted."""
        return Json(await state.answers.classify(state.engine, body))

    @router.post("/transform", responses={200: {"model": schemas.TransformAnswer}})
    async def transform(body: schemas.Transform) -> Response:
        """The adapter: what to ask an index of the vectors as they are, in place of a query."""
        return Json(await state.answers.transform(state.engine, body))


def _add_rows(router: APIRouter, state: State) -> None:
    @router.get("/model")
    async def model() -> Response:
        """What is served: rows, columns, classes and similarities."""
        return Json(state.engine.describe())

    @router.get("/rows")
    async def rows(label: LabelQuery = None, offset: Offset = 0, limit: Limit = 50) -> Response:
        """Stored rows in their order, of one class or of all."""
        engine = state.engine
        engine.require("rows")
        known: Any = range(engine.n_rows) if label is None else engine.members(label)
        shown = [engine.row(int(row)) for row in known[offset : offset + limit]]
        return Json({"model": engine.version, "total": len(known), "rows": shown})

    @router.get("/rows/{row}")
    async def row(row: Row) -> Response:
        """One stored row."""
        engine = state.engine
        return Json({"model": engine.version} | engine.row(_known(engine, row)))

    @router.get("/rows/{row}/picture", response_class=Response)
    async def row_picture(row: Row) -> Response:
        """The image of a stored row, as a small JPEG file."""
        engine = state.engine
        names = engine.trained.names
        if names is None:
            raise Refused(404, "the rows of this model have no images", "row")
        data = await state.pictures.run(picture, names[_known(engine, row)])
        return Response(data, media_type="image/jpeg",
                        headers={"Cache-Control": "private, max-age=300"})  # fmt: skip

    @router.get("/map")
    async def rows_map() -> Response:
        """A sample of the rows in two dimensions under each similarity; begun when first asked."""
        engine = state.engine
        engine.require("map")
        task = engine.map
        task.start(state.traffic)
        answer = {"model": engine.version, "method": task.method, "total": engine.n_rows}
        answer |= task.progress()
        if task.maps:
            labels = engine.model.labels_[task.rows].tolist()
            answer |= {
                "rows": task.rows.tolist(),
                "labels": labels,
            }
            answer |= {
                "places": {k: v.round(4).tolist() for k, v in task.maps[task.method].items()}
            }
            answer |= {"names": {str(c): engine.classes[c] for c in set(labels)}}
        return Json(answer)


def _add_review(router: APIRouter, state: State) -> None:
    @router.get("/confusions")
    async def confusions(limit: Limit = 100) -> Response:
        """Classes taken for another, each stored row being asked for the others (leave-one-out)."""
        engine, task = state.engine, state.review()
        known = await state.answers.workers.run(task.confusions)
        pairs = [
            {"label": engine.classes[own], "predicted": engine.classes[taken], "count": count}
            for (own, taken), count in known[:limit]
        ]
        return Json({"model": engine.version} | task.progress() | {"pairs": pairs})

    @router.get("/confusions/rows")
    async def confused(label: str, predicted: str, limit: Limit = 50) -> Response:
        """Rows of one class that are taken for another, the clearest first."""
        engine, task = state.engine, state.review()
        pair = engine.place(label, "label"), engine.place(predicted, "predicted")
        rows = [_suspect(engine, one) for one in task.confused(pair)[:limit]]
        return Json({"model": engine.version} | task.progress() | {"suspects": rows})

    @router.get("/suspects")
    async def suspects(label: LabelQuery = None, offset: Offset = 0, limit: Limit = 50) -> Response:
        """Rows whose label is likely wrong: their neighbours disagree, the clearest first."""
        engine, task = state.engine, state.review()
        place = None if label is None else engine.place(label)
        known = await state.answers.workers.run(task.suspects, place)
        rows = [_suspect(engine, one) for one in known[offset : offset + limit]]
        total = {"total": len(known)}
        return Json({"model": engine.version} | task.progress() | total | {"suspects": rows})

    @router.get("/suspects.csv", response_class=Response)
    async def suspects_csv() -> Response:
        """All of them as a table; text that a spreadsheet would compute has a quote before it."""
        engine, task = state.engine, state.review()
        text = await state.answers.workers.run(_csv, engine, task.suspects())
        return Response(
            text.encode(errors="replace"), media_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="likely-wrong-labels.csv"'},
        )  # fmt: skip


def _known(engine: "Engine", row: int) -> int:
    engine.require("rows")
    if row >= engine.n_rows:
        raise Refused(404, f"row {row} must lie between 0 and {engine.n_rows - 1}", "row")
    return row


def _suspect(engine: "Engine", one: Suspect) -> dict[str, Any]:
    return engine.row(one.row) | {
        "predicted": engine.classes[one.predicted],
        "probability": round(one.probability, 6),
        "own_probability": round(one.own, 6),
    }


def _csv(engine: "Engine", suspects: list[Suspect]) -> str:
    """A line for each row: what it is, what it seems to be."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    columns = ["row", "name", "id", "label", "predicted", "probability", "own_probability"]
    first = engine.row(0)
    columns = [c for c in columns if c not in ("name", "id") or c in first]
    writer.writerow(columns)
    for one in suspects:
        cells = _suspect(engine, one)
        writer.writerow([_cell(cells[name]) for name in columns])
    return text.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
