"""What the automatic choice aims at, and what it may cost."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from nearkin.validation import expect
from nearkin.validation.parameters import ParameterGroup, Table

Scoring = Literal["classification", "log_loss", "accuracy", "precision", "average_precision"]
SCORINGS: tuple[Scoring, ...] = (
    "classification", "log_loss", "accuracy", "precision", "average_precision"
)  # fmt: skip


@dataclass(repr=False)
class Selection(ParameterGroup):
    """How settings are chosen on held-out rows.

    Parameters
    ----------
    scoring : {"classification", "log_loss", "accuracy", "precision", "average_precision"}
        What held-out rows judge by. ``"classification"``: the geometric mean of log loss and error,
        each of which is noisy where classes are small. ``"precision"``: the share of the
        query's class among the ten most similar rows of its shortlist, and
        ``"average_precision"`` over all of the shortlist, for retrieval rather than classification.
    for_index : bool
        Choose what folds into the query (`SoftVotingKNN.adapter`): rows are prepared by a linear
        map only, and candidates judged by what an index of all rows finds, by dot product.
        ``scoring`` is then usually ``"precision"``.
    effort : float
        1 tries candidates on samples of the rows that keep the choice about as long as a fit or
        two; 4 takes four times as long.
    verbose : int
        1 shows a bar, 2 prints one line per candidate.
    """

    scoring: Scoring = "classification"
    effort: float = 1.0
    for_index: bool = False
    verbose: int = 0

    PARAMETERS: ClassVar[Table] = {
        "scoring": expect.choice(*SCORINGS),
        "effort": expect.number(above=0),
        "for_index": expect.flag,
        "verbose": expect.verbosity,
    }
