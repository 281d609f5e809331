"""A fit from judgements: preparation, the choice on held-out queries, the rounds that are kept."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.learning.averaging import IterateMean
from nearkin.learning.pair_choice import STEPS, HeldOutQueries, PairChoice, choose
from nearkin.learning.pair_trainer import PairTrainer
from nearkin.learning.pairs import PairData, check_pairs_memory, identity, ridge
from nearkin.learning.sampling import Softmax
from nearkin.learning.trainer import Hyperparameters
from nearkin.native.blas import serial_blas
from nearkin.neighbors.index import NeighborIndex
from nearkin.preprocessing.prepared import prepared
from nearkin.preprocessing.transformers import applied
from nearkin.validation.caller import warn_caller

Array = NDArray[np.float32]

RULE = Softmax(0.05)


@dataclass
class PairFit:
    """One call of `SLNE.fit_pairs` on a model, whose parameters are checked."""

    model: Any
    data: PairData
    weights: Array | None

    def run(self, folder: RunFolder) -> None:
        """Choose, learn, and leave the result in the model."""
        model = self.model
        check_pairs_memory(self.data, model.n_neighbors)
        seed = int(check_random_state(folder.seed(model.random_state)).randint(2**31 - 1))
        inputs = self._inputs(seed)
        self._prepare(folder)
        steps = STEPS if model.step_size is None else (model.step_size,)
        with serial_blas():
            kept = folder.part("choice", inputs, lambda: self._choose(steps, seed))
            choice = PairChoice(*kept["choice"].tolist())
            choice = choice._replace(rounds=int(choice.rounds), ridge=bool(choice.ridge))
            model.pair_choice_ = choice._asdict()
            self._learn(choice, seed, inputs, folder)

    def _prepare(self, folder: RunFolder) -> None:
        """Prepare queries and documents alike; by default they stay as they are."""
        model, data = self.model, self.data
        prepare = None if isinstance(model.prepare, str) else model.prepare
        widths = data.queries.shape[1], data.documents.shape[1]
        if prepare is not None and widths[0] != widths[1]:
            raise ValueError(
                f"prepare={type(prepare).__name__}: queries have {widths[0]} columns "
                f"and documents {widths[1]}; give prepare=None"
            )
        no_labels = np.zeros(len(data.documents), np.int64)
        seeds = np.random.RandomState(0)
        model.preparation_, documents = prepared(prepare, data.documents, no_labels, seeds, folder)
        queries = applied(model.preparation_, data.queries)
        self.data = replace(data, queries=queries, documents=documents)
        lengths = [np.einsum("nd,nd->n", rows, rows).mean(dtype=np.float64)
                   for rows in (queries, documents)]  # fmt: skip
        model.scale_ = float(np.sqrt(lengths[0] * lengths[1]))
        if not 0 < model.scale_ < np.inf:
            raise ValueError(
                "queries or documents hold only zero vectors, or numbers beyond float32"
            )

    def _trainer(
        self, data: PairData, database: NeighborIndex, start: Array, step: float, seed: int
    ) -> PairTrainer:
        model, execution = self.model, self.model._execution
        rule = RULE if isinstance(model.sampling, str) and model.sampling == "auto" else model._rule
        settings = Hyperparameters(
            rule=rule.scaled(model.scale_), step_size=step / model.scale_,
            constraint=model._constraint, order=execution.order, quantize=False,
            average=model.average, seed=seed,
        )  # fmt: skip
        k = min(model.n_neighbors, len(data.documents))
        return PairTrainer(data, settings, start, k, database)

    def _choose(self, steps: Any, seed: int) -> dict[str, NDArray[Any]]:
        held = HeldOutQueries(self.data, self.model._execution.index, seed)

        def make(data: PairData, start: Array, step: float) -> PairTrainer:
            return self._trainer(data, held.database, start, step, seed)

        choice = choose(held, make, steps, self.model.max_epochs)
        return {"choice": np.array(choice, np.float64)}

    def _learn(
        self, choice: PairChoice, seed: int, inputs: dict[str, Any], folder: RunFolder
    ) -> None:
        model = self.model
        start = (ridge if choice.ridge else identity)(self.data)
        database = NeighborIndex(self.data.documents, model._execution.index, metric="dot")
        trainer = self._trainer(self.data, database, start, choice.step_size, seed)
        trainer.weights, model.history_, model.interrupted_ = self.weights, [], False
        try:
            while trainer.rounds < choice.rounds:
                record = self._round(trainer, inputs, folder)
                model.history_.append(record)
        except KeyboardInterrupt:
            if not trainer.rounds:
                raise
            model.interrupted_ = True
            warn_caller(
                f"interrupted: M is that of {trainer.rounds} of {int(choice.rounds)} rounds"
            )
        model.matrix_, model.n_epochs_ = trainer.learned, trainer.rounds
        model.t_ = trainer.rounds * len(trainer.visits.query)

    def _round(
        self, trainer: PairTrainer, inputs: dict[str, Any], folder: RunFolder
    ) -> dict[str, float]:
        """The next round, taken or read from the folder."""

        def take() -> dict[str, NDArray[Any]]:
            rate, loss = trainer.round()
            record = np.array([rate, loss / self.model.scale_, trainer.mean.count])
            kept = {"mean": trainer.mean.matrix, "near": trainer.kept_lists}
            there = {name: array for name, array in kept.items() if array is not None}
            return {"matrix": trainer.matrix, "record": record} | there

        number = trainer.rounds + 1
        made = folder.part(f"round-{number}", inputs, take)
        rate, loss, count = made["record"].tolist()
        trainer.matrix, trainer.rounds = np.array(made["matrix"]), number
        if "mean" in made:
            trainer.mean = IterateMean(np.array(made["mean"]), int(count))
        trainer.near = np.array(made["near"]) if "near" in made else None
        return {"epoch": number, "violation_rate": rate, "loss": loss}

    def _inputs(self, seed: int) -> dict[str, Any]:
        """What determines the result."""
        data, judged = self.data, self.data.judged
        weights = () if self.weights is None else (self.weights,)
        return self.model.settings() | {
            "max_epochs": self.model.max_epochs,
            "prepare": repr(self.model.prepare),
            "seed": seed,
            "queries": Digest(data.queries),
            "documents": Digest(data.documents),
            "one array": data.own is not None,
            "relevant": Digest(judged.query, judged.document, judged.grade, *weights),
        }
