"""SL-DE: an ensemble of similarities, learned in projections, in parallel (Section 3)."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from nearkin.ensemble.coupling import Coupling
from nearkin.ensemble.ensemble_fit import EnsembleFit
from nearkin.ensemble.members import place_for_members
from nearkin.ensemble.memory import check_ensemble
from nearkin.ensemble.pairs import fit_rounds
from nearkin.ensemble.projections import (
    Projection,
    ProjectionName,
    projection_problem,
    usual_members,
)
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.learning.execution import Execution
from nearkin.learning.pairs import check_pairs_memory, check_weights
from nearkin.learning.preparation import Preparation
from nearkin.learning.sampling import PAPER_MARGIN
from nearkin.learning.training_data import TrainingData, judged_rows
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.retrieval import check_unlabelled, index_description, refuse_retrieval
from nearkin.preprocessing.transformers import learns_from_labels
from nearkin.similarity import NeighborhoodSimilarity
from nearkin.slne import SLNE
from nearkin.validation import expect
from nearkin.validation.parameters import Table, check_parameters, require

Array = NDArray[np.float32]


class SLDE(NeighborhoodSimilarity, BaseEstimator):
    """Learn one similarity per projection, in parallel, and add them up (Eq. 8).

    Members are learned by joblib workers: ``n_jobs`` on one machine, or a cluster by
    ``joblib.parallel_config(backend="dask")`` around `fit` (``docs/cluster.md``).

    Parameters
    ----------
    learner : estimator, optional
        What learns each member; `SLNE` by default. Any metric learner whose `fit` leaves
        ``matrix_`` or ``components_`` will do. Its `execution` and its `prepare` are the
        ensemble's; with other learners rows are taken as they are.
    projection : {"pca", "strided", "discriminant", "random", "orthonormal", "sparse", "mixed"} or \
            list of (d, D) matrices
        Principal directions in consecutive blocks (``"pca"``) or distributed in turn, so
        that members hold about the same variance (``"strided"``); directions that separate
        classes, then principal ones, distributed in turn (``"discriminant"``); blocks of random
        rotations, one rotation after the other, so that together members miss no direction
        (``"orthonormal"``); random matrices of independent entries, Gaussian (``"random"``) or
        mostly zero (``"sparse"``); half of the members PCA blocks, half random (``"mixed"``).
    n_members : int, optional
        Size of the ensemble, N_E; with blocks of directions at most the number of columns. Left
        out: ten, or fewer where these would have less than 64 columns each.
    n_components : int, optional
        d; if left out, all directions in which rows vary, evenly shared among the members. Blocks
        that are wider overlap; members that are coupled share what they learn there.
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
        "projection": projection_problem,
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
    joint_history_: list[dict[str, float]]

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
    def _learns_by_slne(self) -> bool:
        """Whether members are learned by Algorithm 1: only then is its inside known."""
        return isinstance(self._prototype, SLNE)

    @property
    def _execution(self) -> Execution:
        return self._prototype._execution if self._learns_by_slne else Execution()

    @property
    def prepare(self) -> Preparation:
        """How rows are prepared: as the learner would."""
        return self._prototype.prepare if self._learns_by_slne else None

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
            EnsembleFit(self, data).run(place)
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
        data = judged_rows(self, queries, documents, relevant, one_width=True)
        check_pairs_memory(data, self.n_neighbors)
        weights = check_weights(sample_weight, len(data.queries))
        if weights is not None:
            self._check_weighs()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._remember(*data.described())
        fit_rounds(self, data, weights, seed)
        return self

    def _size(self, columns: int) -> int:
        """Members that are asked for, or as many as suit the columns."""
        return usual_members(columns) if self.n_members is None else int(self.n_members)

    @property
    def _coupling(self) -> str:
        if self.coupling != "auto":
            return self.coupling
        return "start" if self._learns_by_slne else "none"

    @property
    def _local(self) -> bool:
        """Whether members visit rows that lie together one after the other."""
        return self._execution.order == "local"

    def _check_parameters(self) -> None:
        check_parameters(self)
        require("learner.n_neighbors", self.n_neighbors, expect.whole(1))
        if self.joint_epochs and not self._learns_by_slne:
            raise ValueError(
                f"joint_epochs={self.joint_epochs} needs SLNE as learner, not "
                f"{type(self._prototype).__name__}: only its steps can be taken with the other "
                "members fixed"
            )
        if self._coupling != "none" and not self._learns_by_slne:
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

    def _learner_settings(self) -> dict[str, Any]:
        """Parameters of the learner that a member depends on."""
        learner = self._prototype
        if self._learns_by_slne:
            return learner.settings() | {"max_epochs": learner.max_epochs}
        return {
            k: v for k, v in learner.get_params().items() if k not in ("verbose", "random_state")
        }
