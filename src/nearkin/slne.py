"""SL-NE: similarity learning with neighbourhood embedding (Algorithm 1 of the paper)."""

import os
import time
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.learning.constraints import Constraint
from nearkin.learning.epochs import (
    how_to_converge,
    report_epoch,
    report_skipped,
    warn_if_diverged,
)
from nearkin.learning.execution import Execution
from nearkin.learning.incremental import FittedRows, TrainingSet, extended
from nearkin.learning.memory import check_extended, check_fit
from nearkin.learning.neighborhood_fit import NeighborhoodFit, prepare_rows
from nearkin.learning.pair_fit import PairFit
from nearkin.learning.pairs import check_weights
from nearkin.learning.preparation import Preparation, preparation_problem
from nearkin.learning.presets import TALL, for_shape
from nearkin.learning.sampling import RuleName, SamplingRule, as_rule, rule_problem
from nearkin.learning.trainer import Hyperparameters, Trainer
from nearkin.learning.training_data import ROWS, TrainingData, judged_rows
from nearkin.native.blas import serial_blas
from nearkin.neighborhoods import Neighborhoods, NeighborLists, neighborhoods
from nearkin.neighbors.registry import check_metric
from nearkin.neighbors.retrieval import Retrieval, index_description, refuse_retrieval
from nearkin.preprocessing.transformers import applied
from nearkin.similarity import NeighborhoodSimilarity
from nearkin.validation import expect
from nearkin.validation.arrays import labelled_rows
from nearkin.validation.parameters import Table, as_group, check_parameters

Array = NDArray[np.float32]


class SLNE(NeighborhoodSimilarity, BaseEstimator):
    """Learn M so that each row is more similar to same-class neighbours than to the others.

    Parameters
    ----------
    sampling : {"auto", "hardest", "uniform", …} or SamplingRule
        Which neighbours a step pulls and pushes; also ``"random_target"``, ``"all"``,
        ``"all_and_hardest"``, ``"softmax"``. ``"auto"``: ``"softmax"`` where rows outnumber
        dimensions, else ``"all"``. ``"hardest"`` is the paper's. An object sets the rule's own
        parameters: the margin b of the paper by ``Hardest(margin=0.05)``, a temperature by
        ``Softmax(temperature=0.05)``. It may be a rule of your own (`nearkin.learning.sampling`).
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
    retrieval_ : fitted Retrieval, or None
        Search in another feature space, without its vectors; None: in the space of M.
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
        "sampling": expect.either(expect.choice("auto"), rule_problem),
        "prepare": preparation_problem,
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
        """How neighbours are found: the back end's name, also that of a retrieval."""
        return index_description(self._execution.index)

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
            Labels; of rows with several labels, those that share one are targets.
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
        data = TrainingData.of(self, X, y, neighbors, sample_weight, multilabel=True)
        self.rule_ = for_shape(*data.rows.shape)["sampling"]
        if self._execution.refresh:
            check_metric(self.index, len(data.rows), "dot")
        place = as_run_folder(folder)
        check_fit(self, data, place.durable)
        seen = FittedRows(data.rows, data.y, data.neighbors, min(self.n_neighbors, len(data.y) - 1))
        with place.claim("SLNE.fit") as claimed:
            self._cached_seen = None if data.multilabel else seen
            NeighborhoodFit(self, data).run(claimed)
        return self

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
        the array twice. No row is then compared with itself, and where unlike rows are given, no
        others are taken for unlike. `nearkin.graded_triplets` makes judgements of triplets.

        Parameters
        ----------
        queries : (m, D) array-like
        documents : (n, D') array-like
            Of another width, M starts as the ridge regression of relevant documents on queries;
            of the same width, too, where that serves held-out queries better than the identity.
        relevant : (p, 2) or (p, 3) array-like, or (m, n) sparse matrix of grades
            Row of the query, row of the document, grade. Documents of a higher grade are to come
            before those of a lower one; grades up to 0 mark documents known to be irrelevant.
        sample_weight : (m,) array-like, optional
            Weight of each query.
        folder : path or nearkin.RunFolder, optional
            Where finished rounds are kept; the same fit resumes after the last of them.
        """
        check_parameters(self)
        refuse_retrieval(self._execution.index, "fit_pairs searches under M")
        data = judged_rows(self, queries, documents, relevant)
        weights = check_weights(sample_weight, len(data.queries))
        self._remember(*data.described())
        with as_run_folder(folder).claim("SLNE.fit_pairs") as claimed:
            PairFit(self, data, weights).run(claimed)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take in new rows, of old or new classes, and learn from what they change.

        Each new row finds its `n_neighbors` nearest among all rows, old and new; old rows gain the
        new rows that list them. Every new row, and every old row that gained one, is visited
        once; the step schedule goes on from `t_`, for the number of rows that there are now.
        `max_epochs`, `tol` and early stopping play no part, and `scale_` stays what it was.

        For this the estimator keeps a reference to the rows, labels and lists given to `fit` (a
        copy of all rows, in memory, after the first `partial_fit`, which searches lists anew that
        were not given). They are neither saved nor pickled: with a model from a file, ``fit`` on
        all rows with ``warm_start=True`` goes on.

        Parameters
        ----------
        X : (m, D) array-like
            New rows only; the first call, without a `fit` before it, needs at least two.
        y : (m,) array-like
        """
        check_parameters(self)
        first = not hasattr(self, "matrix_")
        accepted = ROWS | {"reset": first, "ensure_min_samples": 1 + first}
        given, labels = labelled_rows(self, X, y, **accepted)
        random_state = check_random_state(self.random_state)
        seed = int(random_state.randint(np.iinfo(np.int32).max))
        if first:
            self.rule_, self.retrieval_ = for_shape(*given.shape)["sampling"], None
            rows = prepare_rows(self, given, labels, random_state, RunFolder.nowhere())
            self._cached_seen = TrainingSet.empty(rows.shape[1], labels)
        else:
            rows = applied(self.preparation_, given)
        check_extended(self, rows)
        seen = extended(self, given, rows, labels, random_state)
        codes = np.unique(seen.labels, return_inverse=True)[1]
        hoods = neighborhoods(seen.neighbors, codes, hub_limit=self._execution.hub_limit)
        report_skipped(self, hoods)
        trainer = self._trainer(seen.rows, hoods, seed, proceed=not first)
        trainer.taken, trainer.visits = trainer.t0, seen.affected(len(rows))
        with serial_blas():
            record = self._epoch(trainer)
        warn_if_diverged(self, record)
        self._cached_seen, self.interrupted_ = seen, False
        self._publish(trainer)
        report_epoch(self, record)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_cached_seen"}

    def settings(self) -> dict[str, Any]:
        """The parameters that decide what is learned, to be compared before a fit is resumed."""
        names = "n_neighbors", "tol", "validation_fraction", "average"
        execution = self._execution.get_params(deep=False)
        if isinstance(execution["index"], Retrieval):
            execution["index"] = execution["index"].description
        return (
            {name: getattr(self, name) for name in names}
            | {"sampling": self._rule.fingerprint(), "step_size": self._step_size}
            | self._constraint.get_params()
            | {
                name: execution[name]
                for name in ("order", "quantize", "index", "refresh", "hub_limit")
            }
        )

    def _trainer(
        self,
        rows: Array,
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

    def _taken(self, rows: Array) -> int:
        """Visits so far, t − 1; models of earlier versions know their epochs only."""
        return getattr(self, "t_", self.n_epochs_ * len(rows))

    def _publish(self, trainer: Trainer) -> None:
        self.matrix_, self.n_epochs_, self.t_ = trainer.learned, trainer.epochs, trainer.t0

    def _epoch(self, trainer: Trainer) -> dict[str, float]:
        began = time.perf_counter()
        violation_rate, loss = trainer.epoch()
        if not np.isfinite(trainer.matrix).all():
            raise FloatingPointError(
                f"step_size={self._step_size} diverged: M is no longer finite after epoch "
                f"{trainer.epochs}; {how_to_converge(self)}"
            )
        return {
            "epoch": trainer.epochs,
            "violation_rate": violation_rate,
            "loss": loss / self.scale_,
            "skipped": self.n_skipped_,
            "seconds": time.perf_counter() - began,
        }
