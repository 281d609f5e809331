"""A fit of SL-DE: preparation, projections, one graph for all, members in parallel, their sum."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from nearkin.ensemble.boosting import boost
from nearkin.ensemble.coupling import Units, start_scores
from nearkin.ensemble.joint import JointMember, refine
from nearkin.ensemble.members import (
    Members,
    check_projections,
    collapsed,
    learn_member,
    mean_squared_length,
)
from nearkin.ensemble.overlap import Overlap
from nearkin.ensemble.projections import make_projections
from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.learning.holdout import HoldOut, held_out
from nearkin.learning.preparation import preparation_for, scale_of
from nearkin.learning.presets import for_shape
from nearkin.learning.training_data import TrainingData
from nearkin.native.blas import serial_blas
from nearkin.neighborhoods import Neighborhoods, neighborhoods
from nearkin.neighbors.index import OwnLists, clip_n_neighbors, own_lists
from nearkin.neighbors.kmeans import cells_of
from nearkin.neighbors.retrieval import fitted_retrieval, kept_lists, without_rows
from nearkin.preprocessing.prepared import prepared
from nearkin.validation.caller import warn_caller

Array = NDArray[np.float32]

HELD_OUT = 0.1
# Parameters that members do not depend on.
_NOT_FINGERPRINTED = ("n_jobs", "joint_epochs", "learner", "random_state")


@dataclass
class EnsembleFit:
    """One call of `SLDE.fit` on a model, whose parameters are checked."""

    model: Any
    data: TrainingData

    def run(self, folder: RunFolder) -> None:
        """Learn the members, and leave them and their sum in the model."""
        model, data = self.model, self.data
        k = self._n_neighbors()
        random_state = folder.seed(model.random_state) if folder.durable else model.random_state
        seeds = check_random_state(random_state)
        rng = np.random.default_rng(seeds.randint(2**31 - 1))
        by_accuracy = model.weights == "accuracy"
        unfitted = preparation_for(model.prepare, data.rows.shape, by_accuracy)
        model.preparation_, self.rows = prepared(unfitted, data.rows, data.y, seeds, folder)
        model.scale_ = scale_of(self.rows)
        held = np.zeros(len(self.rows), bool)
        if by_accuracy:
            held = held_out(data.labels, HELD_OUT, rng)
        self._project(held, rng)
        self.overlap = Overlap.of(model.projections_) if self._shares() else None
        self.units = self._units()
        unscaled = self._learners(rng)
        self.learners = [self.units.learner(n, learner) for n, learner in enumerate(unscaled)]
        self.hoods, self.holdout = self._neighborhoods(held, seeds, k, folder)
        inputs = self._inputs() if folder.durable else {}
        members = Members(folder, inputs, len(self.learners), self.overlap)
        self._learn(members)
        members.collect(model)
        if model.joint_epochs and not model.interrupted_:
            self._refine(folder.durable)
        model.matrix_ = collapsed(model, self.rows.shape[1])

    def _n_neighbors(self) -> int:
        """Neighbours that are looked for, a row: the learner's number or all others."""
        model, n = self.model, len(self.data.rows)
        if self.data.neighbors is not None or not hasattr(model._prototype, "n_neighbors"):
            return min(model.n_neighbors, n - 1)
        return clip_n_neighbors(model.n_neighbors, n)

    def _project(self, held: NDArray[np.bool_], rng: np.random.Generator) -> None:
        """Make the projections, without the labels of rows that are held out."""
        model, rows = self.model, self.rows
        model.projections_, model.energies_ = make_projections(
            model.projection, rows, model._size(rows.shape[1]), model.n_components, rng,
            np.where(held, -1, self.data.labels),
        )  # fmt: skip
        if model._learns_by_slne:  # which divides by the length of projected rows
            check_projections(model, rows)
        model.joint_history_ = []

    def _shares(self) -> bool:
        """Whether members share what they have in common: a share of M may lose its constraint."""
        if self.model._coupling == "none":  # as in the paper
            return False
        constraint = self.model._prototype._constraint
        return not (constraint.spectral or constraint.normalize)

    def _units(self) -> Units:
        lengths = [mean_squared_length(self.rows, P.matrix()) for P in self.model.projections_]
        return Units(self.model.scale_, lengths, self.model._coupling, self.overlap is not None)

    def _learners(self, rng: np.random.Generator) -> list[Any]:
        """One learner a member, all seeds drawn before any work is given out."""
        model, n = self.model, len(self.rows)
        learners = [clone(model._prototype) for _ in model.projections_]
        for learner, P in zip(learners, model.projections_):
            if model._learns_by_slne:
                learner.set_params(prepare=None)  # the ensemble has done so
                if learner.execution is not None:  # and has searched
                    learner.execution.index = model.index
                if isinstance(learner.sampling, str) and learner.sampling == "auto":
                    learner.set_params(sampling=for_shape(n, P.shape[1])["sampling"])
            seed = int(rng.integers(2**31 - 1))
            if "random_state" in learner.get_params():
                learner.set_params(random_state=seed)
        return learners

    def _neighborhoods(
        self, marked: NDArray[np.bool_], seeds: Any, k: int, folder: RunFolder
    ) -> tuple[Neighborhoods, HoldOut]:
        """The shared graph, and the rows held out from it."""
        model, data = self.model, self.data
        holdout, model.retrieval_ = HoldOut.none(len(self.rows)), None
        neighbors, cells = data.neighbors, None
        if neighbors is None:
            neighbors, cells = self._find_neighbors(k, seeds, folder)
        if model.weights == "accuracy":
            holdout = HoldOut.of(marked, neighbors)
        limit = model._execution.hub_limit if model._learns_by_slne else None
        held = holdout.held if holdout else None
        hoods = neighborhoods(neighbors, data.labels, held=held, hub_limit=limit)
        if model._local and hoods.cells is None:
            # Near in all dimensions, not a member's.
            hoods = replace(hoods, cells=cells_of(self.rows) if cells is None else cells)
        return hoods, holdout

    def _find_neighbors(self, k: int, seeds: Any, folder: RunFolder) -> OwnLists:
        model, data, execution = self.model, self.data, self.model._execution
        retrieval = fitted_retrieval(execution.index, data.rows, data.y, seeds, folder)
        if retrieval is None:
            return own_lists(self.rows, k, model.index, execution.verbose)
        model.retrieval_ = without_rows(retrieval)
        return OwnLists(kept_lists(retrieval, k, folder), None)

    def _inputs(self) -> dict[str, Any]:
        """What members are made from."""
        model = self.model
        own = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_FINGERPRINTED}
        own |= {"n_members": len(model.projections_), "coupling": model._coupling}
        if not isinstance(model.projection, str):
            own["projection"] = Digest(*(P.matrix() for P in model.projections_))
        graph = (*self.hoods.arrays, self.hoods.cells)
        given = self.data.weights
        return (
            own
            | ({} if given is None else {"sample_weight": Digest(given)})
            | {f"learner.{k}": v for k, v in model._learner_settings().items()}
            | {
                "learner": type(model._prototype).__name__,
                "seeds": [learner.get_params().get("random_state") for learner in self.learners],
                "X": Digest(self.rows),
                "y": Digest(self.data.labels),
                "neighbors": Digest(*(array for array in graph if array is not None)),
            }
        )

    def _learn(self, members: Members) -> None:
        """Learn the members that are missing, here or in workers."""
        model, learners = self.model, self.learners
        model.interrupted_ = False
        missing = sorted(set(range(len(learners))) - set(members.finished()))
        if not missing:
            members.clear_shared()  # left by a run that was killed at its end
            return
        members.write_shared(self.data.labels, self.hoods, self.holdout, self.data.weights)
        durable = members.folder.durable
        try:
            self._learn_missing(members, missing)
        except KeyboardInterrupt:
            done = len(members.finished())
            if durable or not done:  # the finished ones stay there, the same fit goes on
                raise
            self._tell_of_interrupt(f"{done} of {len(learners)} members are finished", durable)
        except TerminatedWorkerError as error:
            how = (
                f"fit again with the same folder={str(members.folder.path)!r}: "
                f"{len(members.finished())} of {len(learners)} members are kept and only the "
                "others are learned"
                if durable
                else "give folder= so that a fit can resume with the finished members"
            )
            raise RuntimeError(
                f"a worker process died (out of memory, or killed); {how}"
            ) from error
        finally:
            members.clear_shared()

    def _learn_missing(self, members: Members, missing: list[int]) -> None:
        model, rows, hoods = self.model, self.rows, self.hoods
        if model._coupling != "none":
            scores = start_scores(rows, hoods, model.projections_, self.overlap)
            members.write_scores(scores / np.float32(self.units.alike(0)))
        if model._coupling == "boosted":
            boost(members, rows, hoods, model.projections_, self.learners, self.units, scores)
            return
        # The only parallel call: joblib's back end decides where members are learned.
        Parallel(n_jobs=model.n_jobs, verbose=model._execution.verbose)(
            delayed(learn_member)(members, n, learner)
            for n, learner in self._tasks(members, missing)
        )

    def _tasks(self, members: Members, missing: list[int]) -> Iterator[tuple[int, Any]]:
        """Project one member's rows at a time, just before a worker wants them."""
        for n in missing:
            with serial_blas():
                P = self.model.projections_[n].matrix()
                members.write_rows(n, self.rows, P)
            yield n, self.learners[n]

    def _refine(self, durable: bool) -> None:
        """Take the joint updates; an interrupt keeps those that are done."""
        model, ensemble = self.model, []
        for n, P in enumerate(model.projections_):
            epochs = len(model.histories_[n])
            learner, weight = self.learners[n], model.weights_[n]
            ensemble.append(JointMember(P, model.members_[n], weight, learner, epochs))
        margin, history = model.margin * model.scale_, model.joint_history_
        try:
            refine(self.rows, self.hoods, ensemble, margin, model.joint_epochs, history)
        except KeyboardInterrupt:
            self._tell_of_interrupt(f"{len(history)} joint updates are kept", durable)
        model.members_ = [member.matrix for member in ensemble]

    def _tell_of_interrupt(self, what: str, durable: bool) -> None:
        self.model.interrupted_ = True
        how = "" if durable else "; with folder= the same fit could resume"
        warn_caller(f"interrupted: {what}{how}")
