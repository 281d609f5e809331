"""Settings of a training; the command line has one option for each.

Nothing heavy is imported at module level, because every start of the command line reads this file.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

MAX_COMPONENTS = 3_000

# Settings that have no effect unless another is set, and those that go with the automatic choice.
REQUIRES = {
    "ensemble": ("members", "dims", "coupling", "weights", "joint_epochs"),
    "preprocess": ("components", "whitening", "power", "center", "unit_length", "fourier"),
    "fourier": ("bandwidth", "linear"),
}
WITH_AUTO = ("auto", "scoring", "effort", "for_index", "seed")


def _option(default: Any, text: str, panel: str) -> Any:
    return field(default=default, metadata={"help": text, "panel": panel})


def _as_option(name: str) -> str:
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of preprocessing, learner and vote, named as the estimators' parameters if possible.

    Examples
    --------
    >>> TrainingSettings().classifier((1_000, 64)).similarity
    'auto'
    >>> TrainingSettings(epochs=7).given({"epochs"}).classifier((1_000, 64)).similarity
    SLNE(execution=Execution(), max_epochs=7, prepare=None, sampling=Softmax())
    """

    sampling: str = _option(
        "auto", "auto, hardest, uniform, random_target, all, all_and_hardest or softmax; auto: all "
        "if there are more columns than rows, else softmax.", "Learner",
    )  # fmt: skip
    n_neighbors: int | None = _option(
        None,
        "Neighbours to learn from; by default 100, and 400 where columns outnumber rows.",
        "Learner",
    )
    margin: float = _option(0.02, "The paper's b, for rows of unit length.", "Learner")
    step_size: float | None = _option(
        None, "The paper's ρ0, for rows of unit length; by default what suits the rule.", "Learner"
    )
    temperature: float = _option(0.1, "Temperature of softmax sampling.", "Learner")
    epochs: int = _option(5, "Maximum number of epochs.", "Learner")
    average: bool = _option(True, "Average the iterates.", "Learner")
    order: str = _option(
        "random", "Order of the rows: random, given, or local (neighbours together; large data).",
        "Learner",
    )  # fmt: skip
    quantize: bool = _option(False, "Score with an int8 copy of the rows; large data.", "Learner")
    hub_limit: float = _option(10.0, "Lists that make a row a hub, times their mean.", "Learner")
    refresh: int = _option(
        0, "Learn again with neighbours searched under what was learned, so many times.", "Learner"
    )
    tol: float = _option(
        1e-3, "Stop when the loss decreases by less; 0: run all epochs.", "Learner"
    )
    validation_fraction: float = _option(
        0.0, "Rows held out for early stopping; 0: none.", "Learner"
    )
    symmetric: bool = _option(False, "Keep M symmetric.", "Learner")
    psd: bool = _option(False, "Keep M positive semidefinite.", "Learner")
    normalize: bool = _option(False, "Keep the norm of M constant.", "Learner")
    rank: int | None = _option(None, "Limit M to this rank.", "Learner")
    index: str = _option("auto", "auto, exact, cells or a faiss index string.", "Learner")
    retrieval: str | None = _option(
        None, "Find neighbours apart from the preprocessed rows: 'given' for the rows as they are, "
        "or by a preprocessing of its own, such as 'power=0.5,whitening=0.5'.", "Learner",
    )  # fmt: skip
    ensemble: str | None = _option(
        None,
        "SL-DE: pca, strided, discriminant, random, orthonormal, sparse or mixed.",
        "Ensemble",
    )
    members: int = _option(10, "Members of the ensemble.", "Ensemble")
    dims: int | None = _option(None, "Dimensions of a member.", "Ensemble")
    coupling: str = _option(
        "auto", "What members know of each other: none, start or boosted.", "Ensemble"
    )
    weights: str = _option("equal", "equal, or accuracy on held-out rows.", "Ensemble")
    joint_epochs: int = _option(0, "Rounds of joint refinement.", "Ensemble")
    preprocess: bool = _option(True, "Centre, whiten, scale to unit length.", "Preprocessing")
    components: int | None = _option(
        None, "PCA dimensions to keep; by default all, at most 3,000.", "Preprocessing"
    )
    whitening: float = _option(0.5, "0 (none) to 1 (full).", "Preprocessing")
    power: float | None = _option(
        None, "Raise entries to this power first; by default 1, and 0.5 for LLC features.",
        "Preprocessing",
    )  # fmt: skip
    center: bool = _option(True, "Subtract the mean.", "Preprocessing")
    unit_length: bool = _option(True, "Scale rows to length one.", "Preprocessing")
    fourier: int | None = _option(
        None, "Number of random Fourier features, for rows with few columns.", "Preprocessing"
    )
    bandwidth: float = _option(1.0, "Bandwidth of the Fourier features.", "Preprocessing")
    linear: float = _option(
        0.0, "Share of linear columns beside the Fourier features.", "Preprocessing"
    )
    shortlist: int | None = _option(
        None, "Rows that vote; by default the number of neighbours to learn from.", "Vote"
    )
    vote: str = _option("auto", "auto, similarity, power, softmax or top.", "Vote")
    sharpness: float | None = _option(None, "Power, temperature or number of voters.", "Vote")
    csls: float = _option(0.0, "Share of a row's mean similarity to subtract.", "Vote")
    auto: bool | None = _option(
        None, "Choose every setting on held-out training rows: the default, unless a setting of "
        "the learner, the preprocessing or the vote is given.", "Automatic choice",
    )  # fmt: skip
    scoring: str = _option(
        "classification", "What to choose by: classification (log loss and error), log_loss, "
        "accuracy, precision or average_precision.",
        "Automatic choice",
    )  # fmt: skip
    effort: float = _option(1.0, "2 takes twice as long to choose.", "Automatic choice")
    for_index: bool = _option(
        False, "Choose a similarity that folds into the query, for an index of the rows as given.",
        "Automatic choice",
    )  # fmt: skip
    seed: int = _option(0, "Random seed.", "Other")

    def resolved(self, shape: tuple[int, int]) -> "TrainingSettings":
        """The settings with defaults filled in for data of this shape."""
        from nearkin.learning.presets import for_shape
        from nearkin.learning.sampling import RULES

        preset = for_shape(*shape)
        rule = RULES.get(self.sampling) or type(preset["sampling"])
        k = self.n_neighbors or preset["n_neighbors"]
        names = {kind: name for name, kind in RULES.items()}
        return replace(
            self,
            sampling=names[rule],
            n_neighbors=k,
            shortlist=self.shortlist or k,
            components=self.components or min(*shape, MAX_COMPONENTS),
        )

    def given(self, names: Collection[str]) -> "TrainingSettings":
        """The settings, of which `names` were given; the others may be chosen automatically.

        Raises ValueError if one of those given has no effect with the others.
        """
        manual = [name for name in names if name not in WITH_AUTO]
        auto = not manual if self.auto is None else self.auto
        if auto and manual:
            raise ValueError(
                f"--auto chooses every setting: leave out {_as_option(manual[0])} or --auto"
            )
        for name in ("scoring", "effort", "for_index"):
            if name in names and not auto:
                raise ValueError(
                    f"{_as_option(name)} is for the automatic choice, and "
                    f"{_as_option(manual[0] if manual else 'no_auto')} ends it; give one of them"
                )
        for required, others in REQUIRES.items():
            for name in others:
                if name in names and not getattr(self, required):
                    raise ValueError(
                        f"{_as_option(name)} has no effect without {_as_option(required)}; give "
                        "both or neither"
                    )
        return replace(self, auto=auto)

    def check(self) -> None:
        """Raise ValueError for invalid values, before any work is done."""
        from nearkin.app.retrieval_option import retrieval_option_problem
        from nearkin.ensemble.projections import KINDS
        from nearkin.learning.sampling import RULES
        from nearkin.selection.options import SCORINGS
        from nearkin.validation import expect
        from nearkin.validation.parameters import check_parameters, require
        from nearkin.voting.votes import KINDS as VOTES

        count = expect.optional(expect.whole(1))
        expected = {
            "sampling": expect.choice("auto", *RULES),
            "seed": expect.whole(0, 2**32 - 1),
            "effort": expect.number(above=0),
            "scoring": expect.choice(*SCORINGS),
            "n_neighbors": count,
            "shortlist": count,
            "components": count,
            "dims": count,
            "fourier": count,
            "bandwidth": expect.number(above=0),
            "linear": expect.number(0, 1),
            "power": expect.optional(expect.number(above=0)),
            "whitening": expect.number(0, 1),
            "ensemble": expect.optional(expect.choice(*KINDS)),
            "vote": expect.choice("auto", *VOTES),
            "retrieval": expect.optional(retrieval_option_problem),
        }
        for name, expectation in expected.items():
            require(name, getattr(self, name), expectation)
        for name, left_out in (("sharpness", None), ("csls", 0.0)):
            if getattr(self, name) != left_out and self.vote == "auto":
                raise ValueError(
                    f"{name}={getattr(self, name)} needs a kind of vote, such as vote='power'; "
                    f"vote='auto' chooses it: leave {name} out"
                )
        model = self.classifier((1_000, 64))
        check_parameters(model)
        if self.ensemble is not None and self.auto is False:
            model.similarity._check_parameters()

    def transformer(self, shape: tuple[int, int]) -> Any:
        """The unfitted preprocessing; None without one."""
        if not self.preprocess:
            return None
        from nearkin import FourierFeatures, Preprocess

        preprocess = Preprocess(
            self.resolved(shape).components,
            whitening=self.whitening,
            power=1.0 if self.power is None else self.power,
            center=self.center,
            unit_length=self.unit_length and self.fourier is None,
            random_state=self.seed,
        )
        if self.fourier is None:
            return preprocess
        return FourierFeatures(
            preprocess,
            n_features=self.fourier,
            bandwidth=self.bandwidth,
            linear=self.linear,
            random_state=self.seed,
        )

    def search_index(self, shape: tuple[int, int]) -> Any:
        """What finds neighbours, not fitted: the name of an index, or a retrieval."""
        if self.retrieval is None:
            return self.index
        from nearkin import Retrieval
        from nearkin.app.retrieval_option import retrieval_transformer

        source = retrieval_transformer(self.retrieval, shape, MAX_COMPONENTS, self.seed)
        return Retrieval(source, self.index)

    def classifier(
        self, shape: tuple[int, int], callback: Any = None, jobs: int = 1, verbose: int = 0
    ) -> Any:
        """The unfitted classifier for data of this shape.

        `callback` is called after each epoch of a single learner; `jobs` processes fit the members
        of an ensemble.
        """
        import nearkin
        from nearkin.learning.sampling import RULES

        if self.auto is not False:
            aim: Any = self.scoring
            selection = nearkin.Selection(aim, self.effort, self.for_index, verbose)
            return nearkin.SoftVotingKNN(selection=selection, random_state=self.seed)
        final = self.resolved(shape)
        rule: Any = RULES[final.sampling]
        constraint = nearkin.Constraint(self.symmetric, self.psd, self.rank, self.normalize)
        learner: Any = nearkin.SLNE(
            rule(self.temperature if final.sampling == "softmax" else self.margin),
            prepare=None,
            n_neighbors=final.n_neighbors or 1,
            step_size=self.step_size,
            max_epochs=self.epochs,
            average=self.average,
            tol=self.tol,
            validation_fraction=self.validation_fraction,
            constraint=None if constraint == nearkin.Constraint() else constraint,
            execution=nearkin.Execution(
                order=self.order,  # type: ignore[arg-type]
                quantize=self.quantize or "auto",
                index=self.index,
                refresh=self.refresh,
                hub_limit=self.hub_limit,
                callback=None if self.ensemble else callback,
                verbose=verbose if self.ensemble else 0,
            ),
        )
        if self.ensemble is not None:
            learner = nearkin.SLDE(
                learner, projection=self.ensemble,
                n_members=self.members, n_components=self.dims,
                coupling=self.coupling,  # type: ignore[arg-type]
                weights=self.weights,  # type: ignore[arg-type]
                joint_epochs=self.joint_epochs,
                n_jobs=jobs,
            )  # fmt: skip
        vote: Any = self.vote
        if self.vote != "auto":
            vote = nearkin.Vote(vote, self.sharpness, self.csls)
        return nearkin.SoftVotingKNN(
            learner,
            preprocess=self.transformer(shape),
            n_neighbors=final.shortlist or 1,
            vote=vote,
            index=self.search_index(shape),
            random_state=self.seed,
        )
