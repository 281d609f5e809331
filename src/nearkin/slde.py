"""SL-DE: an ensemble of similarities, learned in projections, in parallel (Section 3)."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from nearkin.ensemble.boosting import boost
from nearkin.ensemble.coupling import Coupling, Units, start_scores
from nearkin.ensemble.joint import JointMember, refine
from nearkin.ensemble.members import (
    Members,
    check_projections,
    collapsed,
    learn_member,
    mean_squared_length,
    place_for_members,
)
from nearkin.ensemble.memory import check_ensemble
from nearkin.ensemble.pairs import fit_rounds
from nearkin.ensemble.projections import (
    Projection,
    ProjectionName,
    known_projection,
    make_projections,
    usual_members,
)
from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.learning.execution import Execution
from nearkin.learning.holdout import HoldOut, held_out
from nearkin.learning.pairs import check_pairs_memory, check_weights, pair_data
from nearkin.learning.preparation import Preparation, preparation_for, scale_of
from nearkin.learning.presets import for_shape
from nearkin.learning.sampling import PAPER_MARGIN
from nearkin.learning.training_data import TrainingData
from nearkin.native.blas import serial_blas
from nearkin.neighborhoods import Neighborhoods, NeighborLists, neighborhoods
from nearkin.neighbors.kmeans import cells_of
from nearkin.neighbors.retrieval import (
    check_unlabelled,
    fitted_retrieval,
    index_description,
    kept_lists,
    refuse_retrieval,
    without_rows,
)
from nearkin.neighbors.search import OwnLists, clip_n_neighbors, own_lists
from nearkin.preprocessing.prepared import prepared
from nearkin.preprocessing.transformers import learns_from_labels
from nearkin.similarity import NeighborhoodSimilarity
from nearkin.slne import SLNE
from nearkin.validation import expect
from nearkin.validation.arrays import as_rows, validate_data
from nearkin.validation.caller import warn_caller
from nearkin.validation.parameters import Table, check_parameters, require

Array = NDArray[np.float32]

HELD_OUT = 0.1
# Parameters that members do not depend on.
_NOT_FINGERPRINTED = ("n_jobs", "joint_epochs", "learner", "random_state")


class SLDE(NeighborhoodSimilarity, BaseEstimator):
    """Learn one similarity per projection, in parallel, and add them up (Eq. 8).

    Where it runs is joblib's business: ``n_jobs`` on one machine, and
    ``joblib.parallel_config(backend="dask")`` around `fit` for a cluster (``docs/cluster.md``).

    Parameters
    ----------
    learner : estimator, optional
        What learns each member; `SLNE` by default. Any metric learner whose `fit` leaves
        ``matrix_`` or ``components_`` will do. Its `execution` and its `prepare` are the
        ensemble's; with other learners rows are taken as they are.
    projection : {"pca", "strided", "discriminant", "random", "orthonormal", "sparse", "mixed"} or \
            list of (d, D) matrices
        Principal directions in consecutive blocks (``"pca"``) or dealt out in turn, so that
        members hold about the same variance (``"strided"``); directions that tell classes apart,
        then principal ones, dealt out (``"discriminant"``); random matrices; half of the members
        PCA blocks, half random (``"mixed"``).
    n_members : int, optional
        Size of the ensemble, N_E; with blocks of directions at most the number of columns. Left
        out: ten, or fewer where these would have less than 64 columns each.
    n_components : int, optional
        d; if left out, all directions in which rows vary, evenly shared among the members.
    coupling : {"auto", "none", "start", "boosted"}
        What a member knows of the others while it learns. ``"none"``: nothing, as in the paper.
        ``"start"``: pairs are scored by the whole ensemble, the other members at their start, the
        identity; still in parallel. ``"boosted"``: members before it as they were learned, so
        that each learns what the ensemble so far gets wrong; one after the other, not in
        parallel. ``"auto"``: ``"start"`` for SLNE, ``"none"`` for other learners.
    weights : {"equal", "accuracy"}
        Add members up as they are, or weighted by how well each votes on a tenth of the rows
        (at most 5,000) that are held out for it.
    joint_epochs : int
        Rounds of coordinate descent after the members are learned: each in turn, the others
        fixed; a change is kept only if the objective falls.
    n_jobs : int, optional
        Workers on this machine.
    random_state : int, RandomState instance or None
        The same seed gives the same ensemble on any number of workers.

    Attributes
    ----------
    matrix_ : (D, D) float32 array
        The whole ensemble, Σ PᵀMP.
    members_ : list of (d, d) arrays
    projections_ : list
        ``projections_[n].matrix()`` is P_n.
    energies_ : list of float
        Share of the variance in each block of directions.
    weights_ : list of float
    histories_ : list
        `history_` of each member.
    joint_history_ : list of dict
        For each joint update: ``round``, ``member``, objective ``before`` and ``after``, ``kept``;
        empty without `joint_epochs`.
    interrupted_ : bool
        Whether Ctrl-C ended the fit. The ensemble then consists of the members that were finished,
        or holds the joint updates that were. With a `folder` the interrupt is passed on instead
        while members are learned: the same fit, made again, goes on with those that are missing.
    preparation_ : fitted preparation, or None
        What rows are made from before members are learned; `matrix_` is for prepared rows.
    scale_ : float
        Mean squared length of the prepared rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> ensemble = SLDE(SLNE("softmax"), n_members=4, random_state=0).fit(X[:500], y[:500])
    >>> ensemble.matrix_.shape, [M.shape for M in ensemble.members_]
    ((64, 64), [(14, 14), (14, 14), (14, 14), (14, 14)])
    """

    PARAMETERS: ClassVar[Table] = {
        "learner": expect.optional(expect.part("fit", "a learner such as SLNE()")),
        "projection": known_projection,
        "n_members": expect.optional(expect.whole(1)),
        "n_components": expect.optional(expect.whole(1)),
        "coupling": expect.choice(*get_args(Coupling)),
        "weights": expect.choice("equal", "accuracy"),
        "joint_epochs": expect.whole(0),
        "n_jobs": expect.jobs,
        "random_state": expect.seed,
    }

    matrix_: Array
    members_: list[Any]
    projections_: list[Projection]
    energies_: list[float]
    weights_: list[float]
    histories_: list[list[dict[str, float]]]

    def __init__(
        self,
        learner: Any = None,
        *,
        projection: ProjectionName | Sequence[ArrayLike] = "pca",
        n_members: int | None = None,
        n_components: int | None = None,
        coupling: Coupling = "auto",
        weights: Literal["equal", "accuracy"] = "equal",
        joint_epochs: int = 0,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.learner = learner
        self.projection = projection
        self.n_members = n_members
        self.n_components = n_components
        self.coupling = coupling
        self.weights = weights
        self.joint_epochs = joint_epochs
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def paper(cls, learner: Any = None, **changes: Any) -> Self:
        """SL-DE as in the paper: ten members, each learned by itself with `SLNE.paper`.

        Examples
        --------
        >>> SLDE.paper(n_members=20, projection="random")
        SLDE(coupling='none', learner=..., n_members=20, projection='random')
        """
        settings: dict[str, Any] = {"n_members": 10, "coupling": "none"}
        return cls(SLNE.paper() if learner is None else learner, **(settings | changes))

    @property
    def _prototype(self) -> Any:
        return SLNE() if self.learner is None else self.learner

    @property
    def _execution(self) -> Execution:
        return self._prototype._execution if isinstance(self._prototype, SLNE) else Execution()

    @property
    def prepare(self) -> Preparation:
        """How rows are prepared: as the learner would."""
        return self._prototype.prepare if isinstance(self._prototype, SLNE) else None

    @property
    def n_neighbors(self) -> int:
        """Neighbours per row: the learner's."""
        return getattr(self._prototype, "n_neighbors", 50)

    @property
    def index(self) -> str:
        """How neighbours are found: the back end's name, the learner's."""
        return index_description(self._execution.index)

    @property
    def margin(self) -> float:
        """Margin of the objective: the learner's."""
        return getattr(self._prototype, "margin", PAPER_MARGIN)

    def unprepared(self) -> Self:
        """A copy, not fitted, that takes rows as they are."""
        learner = clone(self._prototype)
        if self.prepare is not None:
            learner.set_params(prepare=None)
        return clone(self).set_params(learner=learner)

    @property
    def psd(self) -> bool:
        """Whether every member, and so the sum, is positive semidefinite."""
        return bool(getattr(self._prototype, "psd", False))

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the members and collapse them to `matrix_`.

        Parameters
        ----------
        X : (n, D) array-like
        y : (n,) array-like
        neighbors : (n, k) integer array or (n, n) scipy CSR graph, optional
            Ready-made lists, as in `SLNE.fit`; one graph, found in the original space, serves
            every member.
        folder : path or nearkin.RunFolder, optional
            Where to keep finished members, and checkpoints of those being learned. A fit that
            died resumes from it. On a cluster, a folder that all machines see.
        sample_weight : (n,) array-like, optional
            Weight of each row: of its steps, in every member.
        """
        self._check_parameters()
        if sample_weight is not None:
            self._check_weighs()
        data = TrainingData.of(self, X, y, neighbors, sample_weight)
        check_ensemble(self, data, as_run_folder(folder).durable)
        with place_for_members(folder) as place, place.claim("SLDE.fit"):
            self._fit(data, place)
        return self

    def fit_pairs(
        self,
        queries: ArrayLike,
        documents: ArrayLike,
        relevant: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from queries, documents and judgements of relevance: see `SLNE.fit_pairs`.

        Queries and documents have the same width. There are at most two rounds: the second learns
        the members anew, on impostors that are searched under the first. Where that does not help
        held-out queries, `matrix_` is the identity and there are no members.
        """
        self._check_parameters()
        refuse_retrieval(self._execution.index, "fit_pairs searches under M")
        data = pair_data(queries, documents, relevant)
        validate_data(self, queries, skip_check_array=True)  # for its names of columns
        as_rows(data.documents[:1], "documents", data.queries.shape[1])
        check_pairs_memory(data, self.n_neighbors)
        weights = check_weights(sample_weight, len(data.queries))
        if weights is not None:
            self._check_weighs()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._remember(*data.described())
        fit_rounds(self, data, weights, seed)
        return self

    def _fit(self, data: TrainingData, folder: RunFolder) -> None:
        k = self._near(len(data.rows), data.neighbors)
        random_state = folder.seed(self.random_state) if folder.durable else self.random_state
        seeds = check_random_state(random_state)
        rng = np.random.default_rng(seeds.randint(2**31 - 1))
        unfitted = preparation_for(self.prepare, data.rows.shape, self.weights == "accuracy")
        self.preparation_, rows = prepared(unfitted, data.rows, data.y, seeds, folder)
        self.scale_ = scale_of(rows)
        held = np.zeros(len(rows), bool)
        if self.weights == "accuracy":
            held = held_out(data.labels, HELD_OUT, rng)
        self.projections_, self.energies_ = make_projections(
            self.projection, rows, self._size(rows.shape[1]), self.n_components, rng,
            np.where(held, -1, data.labels),
        )  # fmt: skip
        if isinstance(self._prototype, SLNE):  # which divides by the length of projected rows
            check_projections(self, rows)
        self.joint_history_: list[dict[str, float]] = []
        lengths = [mean_squared_length(rows, P.matrix()) for P in self.projections_]
        units = Units(self.scale_, lengths, self._coupling)
        unscaled = self._learners(rng, len(rows))
        learners = [units.learner(n, learner) for n, learner in enumerate(unscaled)]
        hoods, holdout = self._hoods(rows, data, held, seeds, k, folder)
        inputs = self._inputs(rows, data, hoods, learners) if folder.durable else {}
        members = Members(folder, inputs, len(learners))
        self._learn(members, rows, learners, units, (data.labels, hoods, holdout, data.weights))
        members.collect(self)
        if self.joint_epochs and not self.interrupted_:
            self._refine(rows, hoods, learners, folder.durable)
        self.matrix_ = collapsed(self, rows.shape[1])

    def _size(self, columns: int) -> int:
        """Members that are asked for, or as many as suit the columns."""
        return usual_members(columns) if self.n_members is None else int(self.n_members)

    @property
    def _coupling(self) -> str:
        if self.coupling != "auto":
            return self.coupling
        return "start" if isinstance(self._prototype, SLNE) else "none"

    @property
    def _local(self) -> bool:
        """Whether members visit rows that lie together one after the other."""
        return self._execution.order == "local"

    def _check_parameters(self) -> None:
        check_parameters(self)
        require("learner.n_neighbors", self.n_neighbors, expect.whole(1))
        if self.joint_epochs and not isinstance(self._prototype, SLNE):
            raise ValueError(
                f"joint_epochs={self.joint_epochs} needs SLNE as learner, not "
                f"{type(self._prototype).__name__}: only its steps can be taken with the other "
                "members fixed"
            )
        if self._coupling != "none" and not isinstance(self._prototype, SLNE):
            raise ValueError(
                f"coupling={self.coupling!r} needs SLNE as learner, not "
                f"{type(self._prototype).__name__}; give coupling='none'"
            )
        if self.coupling == "boosted" and self.weights == "accuracy":
            raise ValueError(
                "coupling='boosted' learns members for their plain sum; give weights='equal'"
            )
        if self.weights == "accuracy" and learns_from_labels(self.prepare):
            raise ValueError(
                "weights='accuracy' judges on rows whose labels the learner's prepare="
                f"{type(self.prepare).__name__}() has seen; give it prepare='auto'"
            )
        if self._execution.refresh:
            raise ValueError(
                f"learner.execution.refresh={self._execution.refresh}: members share one graph, "
                "which is not searched again; give refresh=0, or learn with SLNE"
            )
        if self.weights == "accuracy":
            check_unlabelled(self._execution.index, "weights='accuracy' judges on held-out rows")

    def _check_weighs(self) -> None:
        """Refuse what would not heed weights."""
        if self.joint_epochs or not has_fit_parameter(self._prototype, "sample_weight"):
            what = f"learner={type(self._prototype).__name__}()"
            what = f"joint_epochs={self.joint_epochs}" if self.joint_epochs else what
            raise ValueError(f"sample_weight: {what} does not weigh rows; leave one of them out")

    def _near(self, n: int, neighbors: NeighborLists | None) -> int:
        """Neighbours that are looked for, a row: the learner's number or all others."""
        if neighbors is not None or not hasattr(self._prototype, "n_neighbors"):
            return min(self.n_neighbors, n - 1)
        return clip_n_neighbors(self.n_neighbors, n)

    def _learners(self, rng: np.random.Generator, n: int) -> list[Any]:
        """One learner a member, all seeds drawn before any work is given out."""
        learners = [clone(self._prototype) for _ in self.projections_]
        for learner, P in zip(learners, self.projections_):
            if isinstance(learner, SLNE):
                learner.set_params(prepare=None)  # the ensemble has done so
                if learner.execution is not None:  # and has searched
                    learner.execution.index = self.index
                if isinstance(learner.sampling, str) and learner.sampling == "auto":
                    learner.set_params(sampling=for_shape(n, P.shape[1])["sampling"])
            seed = int(rng.integers(2**31 - 1))
            if "random_state" in learner.get_params():
                learner.set_params(random_state=seed)
        return learners

    def _find_neighbors(
        self, rows: Array, data: TrainingData, k: int, seeds: Any, folder: RunFolder
    ) -> OwnLists:
        execution = self._execution
        retrieval = fitted_retrieval(execution.index, data.rows, data.y, seeds, folder)
        if retrieval is None:
            return own_lists(rows, k, self.index, execution.verbose)
        self.retrieval_ = without_rows(retrieval)
        return OwnLists(kept_lists(retrieval, k, folder), None)

    def _hoods(
        self,
        rows: Array,
        data: TrainingData,
        marked: NDArray[np.bool_],
        seeds: Any,
        k: int,
        folder: RunFolder,
    ) -> tuple[Neighborhoods, HoldOut]:
        """The shared graph, and the rows held out from it."""
        holdout, self.retrieval_ = HoldOut.none(len(rows)), None
        neighbors, labels, cells = data.neighbors, data.labels, None
        if neighbors is None:
            neighbors, cells = self._find_neighbors(rows, data, k, seeds, folder)
        if self.weights == "accuracy":
            holdout = HoldOut.of(marked, neighbors)
        limit = self._execution.hub_limit if isinstance(self._prototype, SLNE) else None
        held = holdout.held if holdout else None
        hoods = neighborhoods(neighbors, labels, held=held, hub_limit=limit)
        if self._local and hoods.cells is None:
            # Near in all dimensions, not a member's.
            hoods = replace(hoods, cells=cells_of(rows) if cells is None else cells)
        return hoods, holdout

    def _inputs(
        self, rows: Array, data: TrainingData, hoods: Neighborhoods, learners: list[Any]
    ) -> dict[str, Any]:
        """What members are made from."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_FINGERPRINTED}
        own |= {"n_members": len(self.projections_), "coupling": self._coupling}
        if not isinstance(self.projection, str):
            own["projection"] = Digest(*(P.matrix() for P in self.projections_))
        graph = (*hoods.arrays, hoods.cells)
        weights = {} if data.weights is None else {"sample_weight": Digest(data.weights)}
        return (
            own
            | weights
            | {f"learner.{k}": v for k, v in self._learner_settings().items()}
            | {
                "learner": type(self._prototype).__name__,
                "seeds": [learner.get_params().get("random_state") for learner in learners],
                "X": Digest(rows),
                "y": Digest(data.labels),
                "neighbors": Digest(*(array for array in graph if array is not None)),
            }
        )

    def _learner_settings(self) -> dict[str, Any]:
        """Parameters of the learner that a member depends on."""
        learner = self._prototype
        if isinstance(learner, SLNE):
            return learner.settings() | {"max_epochs": learner.max_epochs}
        return {
            k: v for k, v in learner.get_params().items() if k not in ("verbose", "random_state")
        }

    def _learn(
        self, members: Members, rows: Array, learners: list[Any], units: Units, shared: Any
    ) -> None:
        self.interrupted_ = False
        missing = sorted(set(range(len(learners))) - set(members.finished()))
        if not missing:
            members.clear_shared()  # left by a run that was killed at its end
            return
        members.write_shared(*shared)
        hoods = shared[1]
        if self._coupling != "none":
            scores = start_scores(rows, hoods, self.projections_)
            members.write_scores(scores / np.float32(units.alike(0)))
        durable, path = members.folder.durable, str(members.folder.path)
        try:
            if self._coupling == "boosted":
                boost(members, rows, hoods, self.projections_, learners, units, scores)
            else:
                # The only parallel call: joblib's back end decides where members are learned.
                Parallel(n_jobs=self.n_jobs, verbose=self._execution.verbose)(
                    delayed(learn_member)(members, n, learner)
                    for n, learner in self._tasks(members, rows, missing, learners)
                )
        except KeyboardInterrupt:
            done = len(members.finished())
            if durable or not done:  # the finished ones stay there, the same fit goes on
                raise
            self._tell_of_interrupt(f"{done} of {len(learners)} members are finished", durable)
        except TerminatedWorkerError as error:
            how = (
                f"fit again with the same folder={path!r}: {len(members.finished())} of "
                f"{len(learners)} members are kept and only the others are learned"
                if durable
                else "give folder= so that a fit can resume with the finished members"
            )
            raise RuntimeError(
                f"a worker process died (out of memory, or killed); {how}"
            ) from error
        finally:
            members.clear_shared()

    def _tasks(
        self, members: Members, rows: Array, missing: list[int], learners: list[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Project one member's rows at a time, just before a worker wants them."""
        for n in missing:
            with serial_blas():
                P = self.projections_[n].matrix()
                members.write_rows(n, rows, P)
            yield n, learners[n]

    def _tell_of_interrupt(self, what: str, durable: bool) -> None:
        self.interrupted_ = True
        how = "" if durable else "; with folder= the same fit could resume"
        warn_caller(f"interrupted: {what}{how}")

    def _refine(
        self, rows: Array, hoods: Neighborhoods, learners: list[Any], durable: bool
    ) -> None:
        ensemble = []
        for n, P in enumerate(self.projections_):
            epochs = len(self.histories_[n])
            ensemble.append(JointMember(P, self.members_[n], self.weights_[n], learners[n], epochs))
        margin = self.margin * self.scale_
        try:
            refine(rows, hoods, ensemble, margin, self.joint_epochs, self.joint_history_)
        except KeyboardInterrupt:
            self._tell_of_interrupt(f"{len(self.joint_history_)} joint updates are kept", durable)
        self.members_ = [member.matrix for member in ensemble]
