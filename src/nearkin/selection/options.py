"""What the automatic choice aims at, and what it may cost."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from nearkin.validation import expect
from nearkin.validation.parameters import ParameterGroup, Table

Scoring = Literal["log_loss", "accuracy", "precision", "average_precision"]
SCORINGS: tuple[Scoring, ...] = ("log_loss", "accuracy", "precision", "average_precision")


@dataclass(repr=False)
class Selection(ParameterGroup):
    """How settings are chosen on held-out rows.

    Parameters
    ----------
    scoring : {"log_loss", "accuracy", "precision", "average_precision"}
        What held-out rows judge by. ``"precision"``: the share of a row's own class among the ten
        most similar of its shortlist, and ``"average_precision"`` over all of the shortlist, for
        retrieval rather than classification.
    effort : float
        1 tries candidates on samples of the rows that keep the choice about as long as a fit or
        two; 4 takes four times as long.
    verbose : int
        1 shows a bar, 2 prints a line a candidate.
    """

    scoring: Scoring = "log_loss"
    effort: float = 1.0
    verbose: int = 0

    PARAMETERS: ClassVar[Table] = {
        "scoring": expect.choice(*SCORINGS),
        "effort": expect.number(above=0),
        "verbose": expect.verbosity,
    }
