"""SL-NE: similarity learning with neighbourhood embedding (Algorithm 1 of the paper)."""

import os
import time
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.learning.checkpoints import CheckpointWriter, TrainingState
from nearkin.learning.constraints import Constraint
from nearkin.learning.execution import Execution
from nearkin.learning.holdout import HoldOut
from nearkin.learning.incremental import FittedRows, TrainingSet
from nearkin.learning.memory import fit_bytes, listed, with_preparation
from nearkin.learning.pair_fit import PairFit
from nearkin.learning.pairs import Judgements, check_weights
from nearkin.learning.preparation import Preparation, known_preparation, preparation_for
from nearkin.learning.presets import TALL, for_shape
from nearkin.learning.refresh import refreshed
from nearkin.learning.sampling import RuleName, SamplingRule, as_rule, known_rule
from nearkin.learning.trainer import TINY, Hyperparameters, Trainer
from nearkin.native.blas import serial_blas
from nearkin.neighborhoods import (
    Neighborhoods,
    NeighborLists,
    as_graph,
    as_lists,
    neighborhoods,
    split_by_shared_labels,
)
from nearkin.neighbors.base import check_metric
from nearkin.neighbors.search import clip_n_neighbors, nearest
from nearkin.similarity import NeighborhoodSimilarity
from nearkin.validation import expect, memory
from nearkin.validation.arrays import as_rows, check_label_count, classes_of, validate_data
from nearkin.validation.parameters import Table, as_group, check_parameters
from nearkin.voting.parts import learns_from_labels
from nearkin.voting.preparation import applied, prepared

DIVERGED_LOSS = 1e3  # times the margin plus two, which no loss exceeds under the identity


class SLNE(NeighborhoodSimilarity, BaseEstimator):
    """Learn M so that each row is more similar to its own kind than to the other near rows.

    Parameters
    ----------
    sampling : {"auto", "hardest", "uniform", "random_target", "all", "softmax"} or SamplingRule
        Which neighbours a step pulls and pushes. ``"auto"``: ``"softmax"`` where rows outnumber
        dimensions, else ``"all"``. ``"hardest"`` is the paper's. An object sets the rule's own
        parameters, ``Hardest(margin=0.05)`` or ``Softmax(temperature=0.05)``, or is a rule of your
        own (`nearkin.learning.sampling`).
    prepare : "auto", Preprocess, WithinClassWhitening or None
        How rows are centred and mapped before M is learned on them: a linear map, so that
        `transform_query` is still compared with the rows as they were given. ``"auto"`` whitens by
        the covariance within classes; by that of all rows if columns outnumber rows or exceed
        2,048, or if rows are held out to judge (`validation_fraction`). None leaves rows as they
        are: right for rows that are centred already.
    n_neighbors : int
        Neighbours per row, before symmetrising (the paper's k).
    step_size : float, optional
        The paper's ρ0; if left out, what suits the sampling rule. Like a rule's margin or
        temperature it is meant for rows of unit length; for others it is scaled by the mean squared
        length (`scale_`), so that no data needs numbers of its own.
    max_epochs : int
        Passes over the rows, at most.
    tol : float
        Stop when the smoothed loss falls by less than this share in an epoch; 0 runs them all.
    validation_fraction : float
        Early stopping: hold out this share of the rows (at most 5,000), keep the matrix of the
        epoch that votes best on them and, unless `tol` is 0, stop after five epochs without a
        better one. 0: no early stopping.
    average : bool
        Polyak averaging: `matrix_` is the mean of the iterates, later ones weighted more. Less
        noise, and more epochs do less harm.
    constraint : Constraint, optional
        Keep M symmetric, positive semidefinite, of low rank or at its norm.
    warm_start : bool
        Go on from the present `matrix_` and step schedule.
    execution : Execution, optional
        Visiting order, quantisation, search index, hub limit, verbosity, callback.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    matrix_ : (D, D) float32 array
        M, for prepared rows.
    preparation_ : fitted preparation, or None
    history_ : list of dict
        For each epoch: ``epoch``, ``violation_rate``, ``loss``, ``skipped``, ``seconds`` and, with
        early stopping, ``validation``. The violation rate is the share of the visited rows with a
        positive loss, those that took a step: by the rules with a margin, rows that violate it.
        ``softmax`` has no margin, and a loss as long as any impostor counts: there the rate stays
        near one, and the loss tells how learning goes.
    n_epochs_ : int
        Epochs behind `matrix_`.
    t_ : int
        Visits of rows behind `matrix_`: where the step schedule goes on.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; `matrix_` is then what was learned until that moment.
    scale_ : float
        Mean squared length of the prepared rows.
    rule_ : SamplingRule
        What ``sampling="auto"`` stands for.
    n_skipped_ : int
        Rows without a target or an impostor among their neighbours.
    n_hubs_ : int
        Rows whose neighbours the hub limit cut.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SLNE("softmax", n_neighbors=40, random_state=0).fit(X, y)
    >>> virginica, versicolor = model.similarity(X[[140]], X[[120, 60]])[0]
    >>> bool(virginica > versicolor)
    True
    """

    PARAMETERS: ClassVar[Table] = {
        "sampling": expect.either(expect.choice("auto"), known_rule),
        "prepare": known_preparation,
        "n_neighbors": expect.whole(1),
        "step_size": expect.optional(expect.number(above=0)),
        "max_epochs": expect.whole(1),
        "tol": expect.number(0),
        "validation_fraction": expect.number(0, below=1),
        "average": expect.flag,
        "constraint": expect.group(Constraint),
        "warm_start": expect.flag,
        "execution": expect.group(Execution),
        "random_state": expect.seed,
    }

    history_: list[dict[str, float]]
    t_: int
    _cached_seen: TrainingSet | FittedRows | None

    def __init__(
        self,
        sampling: Literal["auto"] | RuleName | SamplingRule = "auto",
        *,
        prepare: Preparation = "auto",
        n_neighbors: int = 100,
        step_size: float | None = None,
        max_epochs: int = 5,
        tol: float = 1e-3,
        validation_fraction: float = 0.0,
        average: bool = True,
        constraint: Constraint | None = None,
        warm_start: bool = False,
        execution: Execution | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.sampling = sampling
        self.prepare = prepare
        self.n_neighbors = n_neighbors
        self.step_size = step_size
        self.max_epochs = max_epochs
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.average = average
        self.constraint = constraint
        self.warm_start = warm_start
        self.execution = execution
        self.random_state = random_state

    @classmethod
    def paper(cls, sampling: RuleName | SamplingRule = "hardest", **changes: Any) -> Self:
        """Algorithm 1 at the paper's settings: b = 0.02, ρ0 = 0.2, k = 50, the last iterate.

        Rows are taken as they are.

        Examples
        --------
        >>> SLNE.paper(n_neighbors=500)
        SLNE(average=False, max_epochs=20, n_neighbors=500, prepare=None, sampling='hardest',
             step_size=0.2)
        """
        settings = {"n_neighbors": 50, "step_size": 0.2, "max_epochs": 20, "average": False}
        return cls(sampling, **({"prepare": None} | settings | changes))

    def unprepared(self) -> Self:
        """A copy, not fitted, that takes rows as they are."""
        return clone(self).set_params(prepare=None)

    @property
    def _rule(self) -> SamplingRule:
        if isinstance(self.sampling, str) and self.sampling == "auto":
            return self.rule_ if hasattr(self, "rule_") else TALL["sampling"]
        return as_rule(self.sampling)

    @property
    def _step_size(self) -> float:
        return self._rule.default_step if self.step_size is None else self.step_size

    @property
    def _constraint(self) -> Constraint:
        return as_group("constraint", self.constraint, Constraint)

    @property
    def _execution(self) -> Execution:
        return as_group("execution", self.execution, Execution)

    @property
    def psd(self) -> bool:
        """Whether the similarity is an inner product."""
        return self._constraint.psd

    @property
    def margin(self) -> float:
        """Margin of the objective (Eq. 6), for rows of unit length."""
        return self._rule.margin

    @property
    def index(self) -> str:
        """How neighbours are found."""
        return self._execution.index

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None = None,
        sample_weight: ArrayLike | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
    ) -> Self:
        """Learn `matrix_` from rows `X` with labels `y`.

        Parameters
        ----------
        X : (n, D) array-like
            float32 in C order is used in place, also as a read-only memory map; anything else
            is converted.
        y : (n,) array-like, or (n, L) indicator array
            Labels; of rows with several labels, those that share one are of a kind.
        neighbors : (n, k) integer array or (n, n) scipy CSR graph, optional
            Ready-made neighbour lists; found with `index` if left out.
        sample_weight : (n,) array-like, optional
            How far the step of each row goes, relative to the others.
        folder : path or nearkin.RunFolder, optional
            Where to write a checkpoint every five minutes. If the process dies, the same fit with
            the same folder resumes and ends with the same matrix, to the last bit; other data or
            settings are refused. `max_epochs` may be raised: the fit then goes on. `callback` is
            not called again for epochs that are done. ``RunFolder(path).discard()`` removes it.
        """
        check_parameters(self)
        memory.check_conversion(X)
        rows, labels = self._check_data(X, y)
        neighbors = None if neighbors is None else as_lists(neighbors, len(rows))
        weights = check_weights(sample_weight, len(rows))
        if self._execution.refresh:
            check_metric(self.index, len(rows), "dot")
        place = as_run_folder(folder)
        self._check_memory(rows, neighbors, place)
        with place.claim("SLNE.fit") as claimed:
            return self._fit(rows, labels, y, neighbors, weights, claimed)

    def _fit(
        self,
        rows: NDArray[np.float32],
        labels: NDArray[Any],
        y: ArrayLike,
        neighbors: NeighborLists | None,
        weights: NDArray[np.float32] | None,
        folder: RunFolder,
    ) -> Self:
        random_state = check_random_state(folder.seed(self.random_state))
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        several = labels.ndim == 2
        known = labels if several else np.asarray(y).ravel()
        k = min(self.n_neighbors, len(rows) - 1)
        self._cached_seen = None if several else FittedRows(rows, known, neighbors, k)
        rows = self._prepare_rows(rows, known, random_state, folder)
        all_rows = Digest(rows)
        if neighbors is None:
            neighbors = self._find_neighbors(rows, folder, all_rows)
        holdout = self._hold_out(neighbors, labels, seed)
        data = rows, labels, weights, holdout, seed
        best = self._learn(neighbors, *data, folder, all_rows)
        for number in range(self._execution.refresh):
            if self.interrupted_:
                break
            before = vars(self).copy()
            neighbors = self._search_again(rows, neighbors)
            now = self._learn(neighbors, *data, folder.sub(f"refresh-{number + 1}"), all_rows)
            if now < best:
                self.__dict__.update(before)
                break
            best = now
        return self

    def _learn(
        self,
        neighbors: NeighborLists,
        rows: NDArray[np.float32],
        labels: NDArray[Any],
        weights: NDArray[np.float32] | None,
        holdout: HoldOut,
        seed: int,
        folder: RunFolder,
        all_rows: Digest,
    ) -> float:
        """Run Algorithm 1 on these neighbourhoods; the accuracy on held-out rows, if any."""
        hoods = neighborhoods(
            neighbors,
            labels if labels.ndim == 1 else np.zeros(len(labels), np.int64),
            held=holdout.held if holdout else None,
            hub_limit=self._execution.hub_limit,
        )
        if labels.ndim == 2:
            hoods = split_by_shared_labels(hoods, labels)
        self._report_skipped(hoods, holdout.held, stacklevel=5)
        trainer = self._trainer(rows, hoods, seed)
        trainer.weights = weights
        state = TrainingState(self.history_)

        def validate() -> float | None:
            return holdout.accuracy(rows, labels, trainer.learned) if holdout else None

        inputs = self._inputs(trainer) | {"X": all_rows, "y": Digest(labels)}
        if weights is not None:
            inputs["sample_weight"] = Digest(weights)
        checkpoints = CheckpointWriter(folder, inputs, trainer, state)
        checkpoints.resume()
        self._check_epochs(state, folder)
        self.history_ = state.history
        with serial_blas():
            self._run(trainer, validate, state, checkpoints)
        return state.best

    def _search_again(
        self, rows: NDArray[np.float32], neighbors: NeighborLists
    ) -> NDArray[np.int32]:
        """The neighbours, and those under the learned similarity."""
        if isinstance(neighbors, Neighborhoods):
            neighbors = as_graph(neighbors, len(rows))
        with serial_blas():
            return refreshed(neighbors, rows, self.matrix_, self.n_neighbors, self.index)

    def fit_pairs(
        self,
        queries: ArrayLike,
        documents: ArrayLike,
        relevant: ArrayLike,
        sample_weight: ArrayLike | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
    ) -> Self:
        """Learn `matrix_` from queries, documents and judgements of relevance.

        A query's targets are its relevant documents, its impostors the nearest others, searched
        again under M in each round, some at random, and documents known to be irrelevant.
        The number of rounds, up to `max_epochs`, and the step size if it is not given are chosen by
        nDCG@10 on held-out queries; where nothing helps beyond the noise, M stays as it starts:
        see `pair_choice_`. Afterwards ``transform_query(queries)`` is to be compared with the
        documents as they were given, by dot product.

        Rows are taken as they are with ``prepare="auto"``, and the rule is ``Softmax(0.05)`` with
        ``sampling="auto"``. Pairs of like and unlike rows of one array are judgements, too: give
        the array twice.

        Parameters
        ----------
        queries : (m, D) array-like
        documents : (n, D') array-like
            Of another width, M starts as the ridge regression of relevant documents on queries.
        relevant : (p, 2) or (p, 3) array-like, or (m, n) sparse matrix of grades
            Row of the query, row of the document, grade. Documents of a higher grade are to come
            before those of a lower one; grades up to 0 mark documents known to be irrelevant.
        sample_weight : (m,) array-like, optional
            Weight of each query.
        folder : path or nearkin.RunFolder, optional
            Where finished rounds are kept; the same fit resumes after the last of them.
        """
        check_parameters(self)
        rows = as_rows(queries, "queries")
        validate_data(self, queries, skip_check_array=True)  # for its names of columns
        stored = as_rows(documents, "documents")
        judged = Judgements.of(relevant, len(rows), len(stored))
        weights = check_weights(sample_weight, len(rows))
        pairs = judged.query, judged.document, judged.grade
        what = f"{len(rows)} queries, {len(stored)} documents, {len(pairs[0])} judgements"
        self._remember(what, [rows, stored], *pairs)
        with as_run_folder(folder).claim("SLNE.fit_pairs") as claimed:
            PairFit(self, rows, stored, judged, weights).run(claimed)
        return self

    def _prepare_rows(
        self, rows: NDArray[np.float32], y: NDArray[Any], rng: Any, folder: RunFolder
    ) -> NDArray[np.float32]:
        """Rows as M is learned on them."""
        if not (self.warm_start and hasattr(self, "matrix_")):
            judged = self.validation_fraction > 0
            unlabelled = judged or y.ndim == 2
            self.preparation_ = preparation_for(self.prepare, rows.shape, unlabelled)
            if y.ndim == 2 and learns_from_labels(self.preparation_):
                raise ValueError(
                    f"prepare={type(self.prepare).__name__} needs one label a row, and y has "
                    "several; give prepare='auto'"
                )
            if judged and learns_from_labels(self.preparation_):
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} judges on rows whose labels "
                    f"prepare={type(self.prepare).__name__} has seen; give prepare='auto'"
                )
        self.preparation_, rows = prepared(self.preparation_, rows, y, rng, folder)
        self.scale_ = scale_of(rows)
        return rows

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take in new rows, of old or new classes, and learn from what they change.

        Each new row finds its `n_neighbors` nearest among all rows, old and new; old rows gain the
        new rows that list them. Every new row, and every old row that gained one, is visited
        once; the step schedule goes on from `t_`, for the number of rows that there are now.
        `max_epochs`, `tol` and early stopping play no part, and `scale_` stays what it was.

        For this the estimator keeps a reference to the rows, labels and lists given to `fit` (a
        copy of all rows, in memory, after the first `partial_fit`, which searches lists anew that
        were not given). They are neither saved nor
        pickled: with a model from a file, ``fit`` on all rows with ``warm_start=True`` goes on.

        Parameters
        ----------
        X : (m, D) array-like
            New rows only; the first call, without a `fit` before it, needs at least two.
        y : (m,) array-like
        """
        check_parameters(self)
        first = not hasattr(self, "matrix_")
        rows, labels = validate_data(
            self, X, y, dtype=np.float32, order="C", reset=first, ensure_min_samples=1 + first
        )
        check_classification_targets(labels)
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        if first:
            self.rule_ = for_shape(*rows.shape)["sampling"]
            rows = self._prepare_rows(rows, labels, random_state, RunFolder.nowhere())
            self._cached_seen = TrainingSet.empty(rows.shape[1], labels)
        else:
            rows = applied(self.preparation_, rows)
        seen = self._grown(rows, labels)
        codes = np.unique(seen.labels, return_inverse=True)[1]
        hoods = neighborhoods(seen.neighbors, codes, hub_limit=self._execution.hub_limit)
        self._report_skipped(hoods, np.zeros(len(codes), bool), stacklevel=3)
        trainer = self._trainer(seen.rows, hoods, seed, proceed=not first)
        trainer.taken, trainer.visits = trainer.t0, seen.affected(len(rows))
        with serial_blas():
            record = self._epoch(trainer)
        self._warn_if_diverged(record, stacklevel=3)
        self._cached_seen, self.interrupted_ = seen, False
        self._publish(trainer)
        self._report_epoch(record)
        return self

    def _grown(self, rows: NDArray[np.float32], labels: NDArray[Any]) -> TrainingSet:
        """All rows so far with the new ones, if they are known and fit into memory."""
        seen: TrainingSet | FittedRows | None = getattr(self, "_cached_seen", None)
        if seen is None:
            raise ValueError(
                "partial_fit: the rows that this model was fitted on are not kept in files or "
                "copies; fit on all rows, old and new, with warm_start=True to go on"
            )
        n, D = len(seen.rows) + len(rows), rows.shape[1]
        k = self.n_neighbors
        if len(seen.rows) and seen.neighbors is not None:
            k = listed(seen.neighbors, len(seen.rows))
        stages = fit_bytes(
            n, D, max(k, self.n_neighbors), index="exact", quantized=self._quantizes(n, D)
        )
        stages = {name: size + 4 * n * D for name, size in stages.items()}
        advice = "lower n_neighbors, or fit on a memory map of all rows with warm_start=True"
        memory.check(f"partial_fit, which copies all {n} rows,", stages, advice)
        if isinstance(seen, FittedRows):
            seen = seen.training_set(applied(self.preparation_, seen.rows), self.index)
        return seen.extended(rows, labels, self.n_neighbors, self.index)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_cached_seen"}

    def settings(self) -> dict[str, Any]:
        """The parameters that decide what is learned, to be compared before a fit is resumed."""
        names = "n_neighbors", "tol", "validation_fraction", "average"
        execution = self._execution.get_params()
        return (
            {name: getattr(self, name) for name in names}
            | {"sampling": self._rule.fingerprint(), "step_size": self._step_size}
            | self._constraint.get_params()
            | {
                name: execution[name]
                for name in ("order", "quantize", "index", "refresh", "hub_limit")
            }
        )

    def _inputs(self, trainer: Trainer) -> dict[str, Any]:
        """What determines the result of a fit, beside X and y."""
        hoods = trainer.hoods
        return self.settings() | {
            "seed": trainer.settings.seed,
            "rows until M is complete": trainer.superblock,
            # Now, not when it is first asked for: the matrix is about to change.
            "the matrix to start from": str(Digest(trainer.matrix)),
            "epochs before": trainer.epochs,
            "neighbors": Digest(*(a for a in (*hoods.arrays, hoods.cells) if a is not None)),
        }

    def _check_epochs(self, state: TrainingState, folder: RunFolder) -> None:
        if state.done > self.max_epochs:
            raise ValueError(
                f"max_epochs={self.max_epochs}, but folder={str(folder.path)!r} holds a fit of "
                f"{state.done} epochs; raise max_epochs, or give another folder"
            )

    def _check_data(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float32], Any]:
        check_label_count(X, y)
        if _several(y):
            rows = validate_data(self, X, dtype=np.float32, order="C", ensure_min_samples=2)
            labels = np.asarray(y).astype(bool)
            self._remember(f"{len(rows)} rows", [rows], labels)
            self.rule_ = for_shape(*rows.shape)["sampling"]
            return rows, labels
        rows, y = validate_data(self, X, y, dtype=np.float32, order="C", ensure_min_samples=2)
        check_classification_targets(y)
        classes, labels = classes_of(y)
        if len(classes) == len(rows):
            raise ValueError(
                f"y holds {len(classes)} classes for {len(rows)} rows: each class has a single "
                "row and so no row has a target; at least one class needs two rows"
            )
        self.rule_ = for_shape(*rows.shape)["sampling"]
        self._remember(f"{len(rows)} rows", [rows], labels)
        return rows, labels

    def _check_memory(
        self, rows: NDArray[np.float32], neighbors: NeighborLists | None, folder: RunFolder
    ) -> None:
        n, D = rows.shape
        k = min(self.n_neighbors, n - 1) if neighbors is None else listed(neighbors, n)
        k = min((1 + self._execution.refresh) * k, n - 1) or 1
        stages = fit_bytes(
            n, D, k, index=self.index, ready_lists=neighbors is not None,
            early_stopping=self.validation_fraction > 0, average=self.average,
            spectral=self._constraint.spectral, quantized=self._quantizes(n, D),
        )  # fmt: skip
        if isinstance(neighbors, Neighborhoods):
            del stages["graph"]
        advice = f"lower n_neighbors={k}"
        if self.prepare is not None:
            stages = with_preparation(stages, n, D, folder.durable)
            advice += ", give folder=…, which keeps the prepared rows on disk"
        if "neighbours" in stages:
            advice += ", find neighbours with nearkin.neighbors.nearest(folder=…), kept on disk"
        memory.check(
            f"a fit on {n} rows of {D} columns", stages, f"{advice}, or learn an ensemble (SLDE)"
        )

    def _find_neighbors(
        self, rows: NDArray[np.float32], folder: RunFolder, all_rows: Digest
    ) -> NDArray[np.int32]:
        k = clip_n_neighbors(self.n_neighbors, len(rows))

        def search() -> dict[str, NDArray[Any]]:
            return {
                "indices": nearest(rows, k, index=self.index, verbose=self._execution.verbose)[1]
            }

        inputs = {"n_neighbors": k, "index": self.index, "X": all_rows}
        return folder.part("neighbors", inputs, search)["indices"]

    def _hold_out(self, neighbors: NeighborLists, labels: Any, seed: int) -> HoldOut:
        if not self.validation_fraction:
            return HoldOut.none(len(labels))
        if labels.ndim == 2:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} judges by votes for one label a "
                "row, and y has several; give validation_fraction=0"
            )
        rng = np.random.default_rng(seed)
        holdout = HoldOut.draw(neighbors, labels, self.validation_fraction, rng)
        if not holdout:
            warnings.warn(
                f"validation_fraction={self.validation_fraction} of classes this small holds no "
                "row out, so all epochs are run; raise it or give more rows a class",
                stacklevel=4,
            )
        return holdout

    def _report_skipped(
        self, hoods: Neighborhoods, held: NDArray[np.bool_], stacklevel: int
    ) -> None:
        unusable = ~hoods.usable & ~held & (hoods.degrees > 0)
        self.n_skipped_, self.n_hubs_ = int(unusable.sum()), hoods.n_hubs
        if not hoods.usable.any():
            warnings.warn(
                "no row has both a target and an impostor among its neighbours, so nothing can "
                "be learned and M stays as it is; raise n_neighbors",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        if self._execution.verbose:
            print(
                f"{hoods.usable.sum()} rows to visit, {self.n_skipped_} skipped (no target or no "
                f"impostor near), mean degree {hoods.degrees.mean():.1f}, {hoods.n_hubs} hubs"
            )

    def _trainer(
        self,
        rows: NDArray[np.float32],
        hoods: Neighborhoods,
        seed: int,
        proceed: bool | None = None,
    ) -> Trainer:
        # Rows x/√scale with the given margin and step take the same steps as rows x with these.
        settings = Hyperparameters(
            rule=self._rule.scaled(self.scale_),
            step_size=self._step_size / self.scale_,
            constraint=self._constraint,
            order=self._execution.order,
            quantize=self._quantizes(*rows.shape),
            average=self.average,
            seed=seed,
        )
        proceed = self.warm_start and hasattr(self, "matrix_") if proceed is None else proceed
        if proceed:
            start = np.array(self.matrix_, np.float32, order="C")
            if start.shape != (rows.shape[1], rows.shape[1]):
                raise ValueError(
                    f"warm_start: matrix_ is for {start.shape[0]} columns, X has {rows.shape[1]}"
                )
            settings.constraint.project(start)
            return Trainer(rows, hoods, settings, start, self.n_epochs_, taken=self._taken(rows))
        self.history_ = []
        return Trainer(rows, hoods, settings, np.eye(rows.shape[1], dtype=np.float32))

    def _quantizes(self, n: int, D: int) -> bool:
        return self._execution.quantizes(self._rule.extreme, n, D)

    def _taken(self, rows: NDArray[np.float32]) -> int:
        """Visits so far, t − 1; models of earlier versions know their epochs only."""
        return getattr(self, "t_", self.n_epochs_ * len(rows))

    def _run(
        self,
        trainer: Trainer,
        validate: Callable[[], float | None],
        state: TrainingState,
        checkpoints: CheckpointWriter,
    ) -> None:
        self.interrupted_ = diverged = False
        self._publish(trainer)
        try:
            while state.done < self.max_epochs and not state.stopped:
                record = self._epoch(trainer)
                diverged = diverged or self._warn_if_diverged(record, stacklevel=6)  # once a fit
                self._publish(trainer)
                accuracy = validate()
                if accuracy is not None:
                    record["validation"] = accuracy
                state.update(record, trainer, self.tol)
                state.stopped = self._report_epoch(record) or state.stopped
            checkpoints.write()
        except KeyboardInterrupt:
            # Perhaps within a step: good enough to use, not to go on from, so it is not written.
            trainer.project(trainer.matrix)
            self._publish(trainer)
            self.interrupted_ = True
            warnings.warn(
                f"interrupted in epoch {trainer.epochs + 1}; what was learned so far is kept in "
                "matrix_, and warm_start=True goes on from it",
                stacklevel=5,
            )
        if state.best_matrix is not None:
            self.t_ -= (trainer.epochs - state.best_epochs) * trainer.n_visits
            self.matrix_, self.n_epochs_ = state.best_matrix, state.best_epochs

    def _publish(self, trainer: Trainer) -> None:
        self.matrix_, self.n_epochs_, self.t_ = trainer.learned, trainer.epochs, trainer.t0

    def _epoch(self, trainer: Trainer) -> dict[str, float]:
        began = time.perf_counter()
        violation_rate, loss = trainer.epoch()
        if not np.isfinite(trainer.matrix).all():
            raise FloatingPointError(
                f"step_size={self._step_size} diverged: M is no longer finite after epoch "
                f"{trainer.epochs}; {self._advice}"
            )
        return {
            "epoch": trainer.epochs,
            "violation_rate": violation_rate,
            "loss": loss / self.scale_,
            "skipped": self.n_skipped_,
            "seconds": time.perf_counter() - began,
        }

    @property
    def _advice(self) -> str:
        constrain = "" if self._constraint.normalize else " or set Constraint(normalize=True)"
        return f"lower step_size{constrain}"

    def _warn_if_diverged(self, record: dict[str, float], stacklevel: int) -> bool:
        """Whether the loss is beyond all that a sound M can have; if so, warn."""
        if record["loss"] <= DIVERGED_LOSS * (self.margin + 2):
            return False
        warnings.warn(
            f"step_size={self._step_size} diverges: the mean loss of epoch {record['epoch']} is "
            f"{record['loss']:.1e} times the squared row length; {self._advice}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
        return True

    def _report_epoch(self, record: dict[str, float]) -> bool:
        """Report an epoch; whether the callback asks to stop."""
        execution = self._execution
        self.history_.append(record)
        if execution.verbose:
            print("  ".join(f"{name} {value:.4g}" for name, value in record.items()))
        if execution.callback is None:
            return False
        return execution.callback(int(record["epoch"]), self) is True


def _several(y: Any) -> bool:
    """Whether rows may have several labels: an indicator array of zeros and ones."""
    given = np.asarray(y)
    return given.ndim == 2 and type_of_target(given) == "multilabel-indicator"


def scale_of(rows: NDArray[np.float32]) -> float:
    """Mean squared row length, of rows whose squares float32 can hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("nd,nd->n", rows, rows)
    mean = float(lengths.mean(dtype=np.float64))
    if TINY < mean < np.inf:
        return mean
    largest = float(np.abs(rows).max())
    if largest == 0:
        raise ValueError("X holds only zero vectors; their similarity is zero whatever M is")
    raise ValueError(
        f"X: its largest number is {largest:.1e}, and the squares of such numbers are beyond "
        "float32; divide X by it"
    )
