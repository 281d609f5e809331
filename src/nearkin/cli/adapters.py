"""Commands for the index that there is: pairs, export, try."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import options
from nearkin.cli.inputs import check_new_paths, check_output_paths, parse_columns
from nearkin.cli.interrupts import RESUMES, Interrupted, interrupt_learning_only, interruptible
from nearkin.cli.output import Json, emit, plain_warnings, write_text

if TYPE_CHECKING:
    from nearkin.retrieval_task import RetrievalTask

AGAIN = "the same command starts from the beginning"
Qrels = typer.Argument(
    help="Judgements: TREC qrels, or query id, document id and grade with tabs between; ids are "
    "those of the tables, or row numbers."
)


def pairs(
    queries: Annotated[Path, typer.Argument(help="Queries: vectors, in any format.")],
    documents: Annotated[Path, typer.Argument(help="Documents: vectors, in any format.")],
    qrels: Annotated[Path, Qrels],
    out: Annotated[Path, typer.Option(help="Model file to write (.safetensors).")],
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    folder: Annotated[
        Path | None, typer.Option(help="Keeps finished rounds; removed when the model is written.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Learn a similarity of queries and documents from judgements of relevance.

    How long to learn is chosen on held-out queries, and so is whether to learn at all.

    Example: nearkin pairs queries.parquet documents.parquet qrels.tsv --out model.safetensors
    """
    import nearkin
    from nearkin.app.retrieval_files import read_judged
    from nearkin.io.run_folder import as_run_folder

    check_output_paths(out)
    work = as_run_folder(folder)
    advice = RESUMES if work.durable else AGAIN
    with plain_warnings(), interruptible(advice):
        task = read_judged(documents, queries, qrels, parse_columns(None, vector_column, id_column))
        model = nearkin.SLNE(random_state=seed)
        with interrupt_learning_only():
            model.fit_pairs(task.asked, task.documents, task.judgements, folder=work)  # type: ignore[arg-type]
        nearkin.save(model, out)
    if model.interrupted_:
        raise Interrupted(f"the model learned so far is in {out}", advice)
    work.discard()
    chosen = model.pair_choice_
    emit({"model": str(out), "data": model.fingerprint_, "rounds": chosen["rounds"],
          "held_out_ndcg_before": chosen["before"], "held_out_ndcg_after": chosen["after"]},
         as_json)  # fmt: skip


def export(
    model: options.Model,
    out: Annotated[Path, typer.Option(help="Adapter to write (.safetensors).")],
    metric: Annotated[
        str | None, typer.Option(help="How the index compares: dot, cosine or l2.")
    ] = None,
    onnx: Annotated[Path | None, typer.Option(help="ONNX graph to write.")] = None,
    npy: Annotated[
        Path | None, typer.Option(help="Array to write: the matrix, the offset below it.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="Model card to write (Markdown).")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Vectors of an index to measure on; see --queries, --qrels.")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Queries to it; by default each vector asks for the others.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="What is relevant; by default vectors of the same label.")
    ] = None,
    labels: options.Labels = None,
    label_column: options.Column = None,
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    as_json: Json = False,
) -> None:
    """Write what to do with queries to an index of vectors as they are: one matrix.

    With --data, retrieval before and after is measured and goes into the model card.

    Example: nearkin export model.safetensors --out adapter.safetensors --card card.md --data t.npz

    Example: nearkin export m.safetensors --out a.safetensors --onnx a.onnx --metric cosine

    Example: nearkin export m.safetensors --out a.safetensors --data d.npy --queries q.npy
    --qrels test.tsv
    """
    from nearkin.app.finished_run import load_trained

    check_output_paths(out)
    check_new_paths(onnx=onnx, npy=npy, card=card)
    adapter = adapter_of(load_trained(model).model, model, metric)
    columns = parse_columns(None, vector_column, id_column, label_column)
    with plain_warnings():
        task = _task(data, queries, qrels, labels, columns)
        result = {} if task is None else adapter.measure(task)
    adapter.save(out)
    if onnx is not None:
        adapter.to_onnx(onnx)
    if npy is not None:
        adapter.to_npy(npy)
    if card is not None:
        write_text(card, adapter.model_card())
    emit({"adapter": str(out), "columns": f"{adapter.matrix.shape[0]} → {adapter.matrix.shape[1]}",
          "metric": adapter.metric} | result, as_json)  # fmt: skip


def adapter_of(model: Any, path: Path, metric: str | None = None) -> Any:
    """The adapter of a model that was read from a file."""
    from nearkin import Adapter

    if isinstance(model, Adapter):
        if metric not in (None, model.metric):
            raise ValueError(f"{path} holds an adapter for an index by {model.metric}; export the "
                             "model that it came from")  # fmt: skip
        return model
    if not hasattr(model, "adapter"):
        raise ValueError(f"{path} holds a {type(model).__name__}, which learns no similarity; give "
                         "a model of 'nearkin train' or 'nearkin pairs'")  # fmt: skip
    return model.adapter(raw=True, metric=metric)


def _task(
    data: Path | None, queries: Path | None, qrels: Path | None, labels: Path | None, columns: Any
) -> "RetrievalTask | None":
    """What is to be measured, if anything."""
    from nearkin.app.retrieval_files import read_by_label, read_judged

    if data is None:
        for name, given in (("queries", queries), ("qrels", qrels), ("labels", labels)):
            if given is not None:
                raise ValueError(f"--{name} {given} has no effect without --data, the vectors of "
                                 "an index")  # fmt: skip
        return None
    if qrels is None:
        return read_by_label(data, queries, labels, columns)
    if queries is None:
        raise ValueError(f"--qrels {qrels} grades documents for queries; give --queries, too")
    return read_judged(data, queries, qrels, columns)


def try_(
    embeddings: Annotated[Path, typer.Argument(help="Vectors of the index, in any format.")],
    labels_or_pairs: Annotated[
        Path | None,
        typer.Argument(
            help="Labels (.npy, or text with one per line; by default those of the file or its "
            "column); with --queries, judgements: TREC qrels or columns with tabs between."
        ),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="Queries, if relevance is judged in pairs.")
    ] = None,
    label_column: options.Column = None,
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    out: Annotated[
        Path | None, typer.Option(help="Adapter to write (.safetensors), as it was tried.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Would a learned similarity help in front of your index? Tried on queries held out.

    Raw cosine, against the learned similarity: re-ranked, and over the whole index, searched
    exactly and in a graph (HNSW). Of more than 50,000 vectors, a sample is tried.

    Example: nearkin try embeddings.npy labels.txt

    Example: nearkin try documents.parquet qrels.tsv --queries queries.parquet --out a.safetensors
    """
    from nearkin.app import advice, trial
    from nearkin.app.labels import read_labelled
    from nearkin.app.retrieval_files import read_judged

    check_output_paths(out, report)
    columns = parse_columns(None, vector_column, id_column, label_column)
    with plain_warnings(), interruptible(AGAIN):
        if queries is None:
            data = read_labelled(embeddings, labels_or_pairs, columns)
            result = trial.try_labels(data.rows, data.labels, seed)  # type: ignore[arg-type]
        elif labels_or_pairs is None:
            raise ValueError(f"--queries {queries} needs judgements; give a file of qrels as well")
        else:
            task = read_judged(embeddings, queries, labels_or_pairs, columns)
            result = trial.try_pairs(task.asked, task.documents, task.judgements, seed)
    if out is not None:
        result.adapter.save(out)
    if report is not None:
        advice.write_page(report, result, f"Would it help? {embeddings.name}")
    if as_json:
        emit(advice.as_dict(result), as_json)
    else:
        typer.echo(advice.text(result))
