"""Everything a training can be told, in one place: the commands make their options from it.

Nothing heavy is imported here, because the command line reads the options before anything else.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MAX_COMPONENTS = 3_000

# Settings that do nothing without another, and those that mean something beside `tune`.
NEEDED = {
    "ensemble": ("members", "dims", "own_neighbors", "weights", "joint_epochs"),
    "preprocess": ("components", "whitening", "power", "center", "unit_length", "fourier"),
    "fourier": ("bandwidth",),
    "tune": ("tune_rows",),
}
WITH_TUNE = ("tune", "tune_rows", "seed")


def _option(default: Any, text: str, panel: str) -> Any:
    return field(default=default, metadata={"help": text, "panel": panel})


def _as_option(name: str) -> str:
    return "--" + name.replace("_", "-")


@dataclass(frozen=True)
class Settings:
    """What a model is made with; the names are those of the estimators where one word does.

    Examples
    --------
    >>> Settings(epochs=5).classifier(rows=1_000, columns=64).similarity
    SLNE(execution=Execution(), max_epochs=5, sampling=Softmax())
    """

    sampling: str = _option(
        "auto", "auto, hardest, uniform, random_target, all or softmax; auto: hardest where there "
        "are more columns than rows, else softmax.", "Learner",
    )  # fmt: skip
    n_neighbors: int | None = _option(
        None, "Neighbours to learn from; by default 400 with the rule hardest, else 50.", "Learner"
    )
    margin: float = _option(0.02, "The paper's b, for rows of unit length.", "Learner")
    step_size: float = _option(0.2, "The paper's ρ0, for rows of unit length.", "Learner")
    temperature: float = _option(0.1, "Of the softmax rule.", "Learner")
    epochs: int = _option(20, "Epochs, at most.", "Learner")
    order: str = _option(
        "random", "Of the rows: random, given, or local (neighbours together; large data).",
        "Learner",
    )  # fmt: skip
    quantize: bool = _option(False, "Score by an int8 copy of the rows; large data.", "Learner")
    hub_limit: float = _option(10.0, "Times the usual number of lists that make a hub.", "Learner")
    tol: float = _option(1e-3, "Stop when the loss falls by less; 0 runs all epochs.", "Learner")
    validation_fraction: float = _option(
        0.0, "Rows held out for early stopping; 0: none.", "Learner"
    )
    symmetric: bool = _option(False, "Keep M symmetric.", "Learner")
    psd: bool = _option(False, "Keep M positive semidefinite.", "Learner")
    normalize: bool = _option(False, "Keep the norm of M.", "Learner")
    rank: int | None = _option(None, "Keep M of this rank.", "Learner")
    index: str = _option("auto", "auto, exact, cells or a faiss index string.", "Learner")
    ensemble: str | None = _option(
        None, "SL-DE: pca, random, orthonormal, sparse or mixed.", "Ensemble"
    )
    members: int = _option(10, "Members of the ensemble.", "Ensemble")
    dims: int | None = _option(None, "Dimensions of a member.", "Ensemble")
    own_neighbors: bool = _option(False, "Neighbours of each member's own space.", "Ensemble")
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
        None, "Random Fourier features to make of rows with few columns.", "Preprocessing"
    )
    bandwidth: float = _option(1.0, "Of the Fourier features.", "Preprocessing")
    shortlist: int | None = _option(
        None, "Rows that vote; by default as many as neighbours to learn from.", "Vote"
    )
    vote: str = _option("auto", "auto, similarity, power, softmax or top.", "Vote")
    sharpness: float | None = _option(None, "Power, temperature or number of voters.", "Vote")
    csls: float = _option(0.0, "Share of its mean similarity taken off a row's score.", "Vote")
    refit: bool = _option(True, "Learn on all rows once the vote is chosen.", "Vote")
    tune: bool = _option(False, "Choose every setting on held-out training rows.", "Tuning")
    tune_rows: int = _option(20_000, "Rows to choose on, at most.", "Tuning")
    seed: int = _option(0, "Random seed.", "Other")

    def as_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)

    def resolved(self, rows: int, columns: int) -> "Settings":
        """The same with what was left to us decided for data of this shape."""
        from nearkin.learning.presets import TALL, WIDE, for_shape
        from nearkin.learning.sampling import RULES, Hardest

        rule = type(for_shape(rows, columns)["sampling"])
        rule = RULES.get(self.sampling, rule)  # "auto" is no rule
        usual = (WIDE if rule is Hardest else TALL)["n_neighbors"]
        k = self.n_neighbors or max(1, min(usual, rows - 1))
        names = {kind: name for name, kind in RULES.items()}
        return replace(
            self,
            sampling=names[rule],
            n_neighbors=k,
            shortlist=self.shortlist or k,
            components=self.components or min(rows, columns, MAX_COMPONENTS),
        )

    def check_given(self, names: Collection[str]) -> None:
        """Refuse settings that were given and would not count beside the others."""
        for name in names:
            if self.tune and name not in WITH_TUNE:
                raise ValueError(
                    f"--tune chooses every setting, {_as_option(name)} names one: give one"
                )
        for needed, others in NEEDED.items():
            for name in others:
                if name in names and not getattr(self, needed):
                    raise ValueError(
                        f"{_as_option(name)} does nothing without {_as_option(needed)}; give both, "
                        "or neither"
                    )

    def check(self) -> None:
        """Refuse what can be refused before any work is done."""
        from nearkin.learning.sampling import RULES
        from nearkin.validation.parameters import check_choice, check_number

        check_choice("sampling", self.sampling, ["auto", *RULES])
        check_number("seed", self.seed, 0)
        check_number("tune_rows", self.tune_rows, 3)
        for name in ("n_neighbors", "shortlist", "components", "dims", "fourier"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1)
        check_number("bandwidth", self.bandwidth, 0, open_low=True)
        if self.power is not None:
            check_number("power", self.power, 0, open_low=True)
        if not 0 <= self.whitening <= 1:
            raise ValueError(f"whitening={self.whitening!r} must lie between 0 and 1")
        if self.sharpness is not None and self.vote == "auto":
            raise ValueError(
                f"sharpness={self.sharpness} goes with a vote that is named, such as vote='power'; "
                "vote='auto' chooses it: leave one of them out"
            )
        model = self.classifier(rows=1_000, columns=64)
        model._check_parameters()
        model.similarity._check_parameters()
        if self.ensemble is not None:
            kinds = ["pca", "random", "orthonormal", "sparse", "mixed"]
            check_choice("ensemble", self.ensemble, kinds)
            model.similarity.learner._check_parameters()

    def transformer(self, rows: int, columns: int) -> Any:
        """The preprocessing, not fitted; None without one."""
        if not self.preprocess:
            return None
        from nearkin import FourierFeatures, Preprocess

        components = self.resolved(rows, columns).components
        made = Preprocess(
            components,
            whitening=self.whitening,
            power=1.0 if self.power is None else self.power,
            center=self.center,
            unit_length=self.unit_length and self.fourier is None,
            random_state=self.seed,
        )
        if self.fourier is None:
            return made
        return FourierFeatures(
            made, n_features=self.fourier, bandwidth=self.bandwidth, random_state=self.seed
        )

    def classifier(
        self,
        rows: int,
        columns: int,
        callback: Any = None,
        where: dict[str, Any] | None = None,
        verbose: int = 0,
    ) -> Any:
        """The classifier for data of this shape, not fitted.

        `callback` is for a single learner, since a worker cannot call back; `where`, for an
        ensemble: ``n_jobs``.
        """
        import nearkin

        final = self.resolved(rows, columns)
        learner: Any = nearkin.SLNE(
            final.rule(),
            n_neighbors=final.n_neighbors or 1,
            step_size=self.step_size,
            max_epochs=self.epochs,
            tol=self.tol,
            validation_fraction=self.validation_fraction,
            constraint=self.constraint(),
            execution=nearkin.Execution(
                order=self.order,  # type: ignore[arg-type]
                quantize=self.quantize or "auto",
                index=self.index,
                hub_limit=self.hub_limit,
                callback=None if self.ensemble else callback,
                verbose=verbose if self.ensemble else 0,
            ),
        )
        if self.ensemble is not None:
            learner = nearkin.SLDE(
                learner, projection=self.ensemble,
                n_members=self.members, n_components=self.dims, own_neighbors=self.own_neighbors,
                weights=self.weights,  # type: ignore[arg-type]
                joint_epochs=self.joint_epochs,
                **(where or {}),
            )  # fmt: skip
        vote: Any = self.vote
        if self.sharpness is not None:
            vote = nearkin.Vote(vote, self.sharpness)
        return nearkin.SoftVotingKNN(
            learner,
            preprocess=self.transformer(rows, columns),
            n_neighbors=final.shortlist or 1,
            vote=vote,
            csls=self.csls,
            index=self.index,
            refit=self.refit,
            random_state=self.seed,
        )

    def rule(self) -> Any:
        """The sampling rule with its own parameters."""
        from nearkin.learning.sampling import RULES

        kind: Any = RULES[self.sampling]
        return kind(self.temperature if self.sampling == "softmax" else self.margin)

    def constraint(self) -> Any:
        """The constraint on M; None if there is none."""
        from nearkin import Constraint

        made = Constraint(self.symmetric, self.psd, self.rank, self.normalize)
        return None if made == Constraint() else made
