"""Everything a training can be told, in one place: the commands make their options from it.

Nothing heavy is imported here, because the command line reads the options before anything else.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from typing import Any

# Measured on Caltech-101 (more dimensions than rows) and on embeddings (more rows).
WIDE_RULE, WIDE_NEIGHBORS = "hardest", 400
LONG_RULE, LONG_NEIGHBORS = "softmax", 50
MOST_COMPONENTS = 3_000
ORDERS: dict[str, bool | str] = {"random": True, "given": False, "local": "local"}

# Settings that do nothing without another, and those that mean something beside `tune`.
NEEDED = {
    "ensemble": ("members", "dims", "pca_rows", "own_neighbors", "weights", "joint_epochs"),
    "preprocess": ("components", "whitening", "power", "center", "unit_length", "lift"),
    "lift": ("bandwidth",),
    "early_stopping": ("validation_fraction",),
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
    SLNE(max_epochs=5, rule='softmax')
    """

    rule: str = _option(
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
    batch_size: int = _option(1, "1 is the paper's algorithm.", "Learner")
    order: str = _option(
        "random", "Of the rows: random, given, or local (neighbours together; large data).",
        "Learner",
    )  # fmt: skip
    rounded: bool = _option(False, "Compare by rows rounded to bytes; large data.", "Learner")
    hub_limit: float = _option(10.0, "Times the usual number of lists that make a hub.", "Learner")
    tol: float = _option(1e-3, "Stop when the loss falls by less; 0 runs all epochs.", "Learner")
    early_stopping: bool = _option(False, "Keep the epoch best on held-out rows.", "Learner")
    validation_fraction: float = _option(0.1, "Rows held out by early stopping.", "Learner")
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
    pca_rows: int | None = _option(None, "Rows to find principal directions from.", "Ensemble")
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
    lift: int | None = _option(
        None, "Random Fourier features to make of rows with few columns.", "Preprocessing"
    )
    bandwidth: float = _option(1.0, "Of the Fourier features.", "Preprocessing")
    shortlist: int | None = _option(
        None, "Rows that vote; by default as many as neighbours to learn from.", "Vote"
    )
    vote: str = _option("auto", "auto, similarity, power, softmax or top.", "Vote")
    sharpness: float | None = _option(None, "Power, temperature or number of voters.", "Vote")
    hub_share: float = _option(0.0, "Share of its surroundings taken off a row's score.", "Vote")
    refit: bool = _option(True, "Learn on all rows once the vote is chosen.", "Vote")
    tune: bool = _option(False, "Choose every setting on held-out training rows.", "Tuning")
    tune_rows: int = _option(20_000, "Rows to choose on, at most.", "Tuning")
    seed: int = _option(0, "Random seed.", "Other")

    def as_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)

    def resolved(self, rows: int, columns: int) -> "Settings":
        """The same with what was left to us decided for data of this shape."""
        rule = self.rule
        if rule == "auto":
            rule = WIDE_RULE if columns > rows else LONG_RULE
        usual = WIDE_NEIGHBORS if rule == WIDE_RULE else LONG_NEIGHBORS
        k = self.n_neighbors or max(1, min(usual, rows - 1))
        most = min(rows, columns, MOST_COMPONENTS)
        return replace(
            self,
            rule=rule,
            n_neighbors=k,
            shortlist=self.shortlist or k,
            components=most if self.components is None else self.components,
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
        from nearkin.validation.arrays import check_choice, check_number

        check_choice("rule", self.rule, ["auto", *RULES])
        check_choice("order", self.order, ORDERS)
        check_number("seed", self.seed, 0)
        check_number("tune_rows", self.tune_rows, 3)
        for name in ("n_neighbors", "shortlist", "components", "dims", "pca_rows", "lift"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1)
        check_number("bandwidth", self.bandwidth, 0, open_low=True)
        if self.power is not None:
            check_number("power", self.power, 0, open_low=True)
        if not 0 <= self.whitening <= 1:
            raise ValueError(f"whitening={self.whitening!r} must lie between 0 and 1")
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
        from nearkin import FourierLift, Preprocess

        components = self.resolved(rows, columns).components
        made = Preprocess(
            components,
            whitening=self.whitening,
            power=1.0 if self.power is None else self.power,
            center=self.center,
            unit_length=self.unit_length and self.lift is None,
            random_state=self.seed,
        )
        if self.lift is None:
            return made
        return FourierLift(
            made, n_features=self.lift, bandwidth=self.bandwidth, random_state=self.seed
        )

    def classifier(
        self, rows: int, columns: int, callback: Any = None, where: dict[str, Any] | None = None
    ) -> Any:
        """The classifier for data of this shape, not fitted.

        `callback` is for a single learner, since a worker cannot call back; `where`, for an
        ensemble: ``n_jobs``.
        """
        import nearkin

        final = self.resolved(rows, columns)
        learner: Any = nearkin.SLNE(
            n_neighbors=final.n_neighbors or 1, margin=self.margin, step_size=self.step_size,
            max_epochs=self.epochs, rule=final.rule, batch_size=self.batch_size,
            shuffle=ORDERS.get(self.order, self.order), rounded=self.rounded or "auto",
            hub_limit=self.hub_limit, symmetric=self.symmetric, rank=self.rank, psd=self.psd,
            normalize=self.normalize, tol=self.tol, temperature=self.temperature,
            index=self.index, early_stopping=self.early_stopping,
            validation_fraction=self.validation_fraction,
            callback=None if self.ensemble else callback,
        )  # fmt: skip
        if self.ensemble is not None:
            learner = nearkin.SLDE(
                learner, projection=self.ensemble, n_members=self.members,
                n_components=self.dims, pca_rows=self.pca_rows, own_neighbors=self.own_neighbors,
                weights=self.weights, joint_epochs=self.joint_epochs, **(where or {}),
            )  # fmt: skip
        return nearkin.SoftVotingKNN(
            learner, n_neighbors=final.shortlist or 1, vote=self.vote, sharpness=self.sharpness,
            index=self.index, preprocess=self.transformer(rows, columns),
            hub_share=self.hub_share, refit=self.refit, random_state=self.seed,
        )  # fmt: skip
