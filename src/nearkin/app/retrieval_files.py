"""Documents, queries, and what is relevant to whom, from files."""

from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin import datasets
from nearkin.app.labels import match_labels, read_labelled
from nearkin.io.tables import Columns, Dataset
from nearkin.retrieval_task import RetrievalTask


def read_judged(documents: Path, queries: Path, qrels: Path, columns: Columns) -> RetrievalTask:
    """Queries, and judgements that name them and the documents by id, or else by row number."""
    stored, asked = (_read(path, columns) for path in (documents, queries))
    judged = datasets.read_judgements(qrels, _ids(asked), _ids(stored))
    return RetrievalTask.of(stored.rows, asked.rows, judged, None, None)


def read_by_label(
    documents: Path, queries: Path | None, labels: Path | None, columns: Columns
) -> RetrievalTask:
    """Documents of classes; without queries each asks for the others. `labels`: of documents."""
    stored = read_labelled(documents, labels, columns)
    if queries is None:
        return RetrievalTask.of(stored.rows, None, None, stored.labels, None)
    asked = read_labelled(queries, None, columns)
    truth = match_labels(asked.labels, np.unique(stored.labels))  # type: ignore[arg-type]
    return RetrievalTask.of(stored.rows, asked.rows, None, stored.labels, truth)


def _read(path: Path, columns: Columns) -> Dataset:
    data = datasets.read(path, None, *astuple(columns))
    datasets.check_finite(data.rows, path)
    return data


def _ids(data: Dataset) -> NDArray[np.generic]:
    return np.arange(len(data.rows)) if data.ids is None else data.ids
