"""The table of counts, and the rule by which it passes."""

from collections import Counter

from hostile import judge
from hostile.judge import OUTCOMES, Verdict
from hostile.runner import Case


class Table:
    """Counts by kind and outcome, and the cases that are not as they should be."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.bad: list[tuple[Case, Verdict]] = []

    def add(self, case: Case, verdict: Verdict) -> None:
        self.counts[case.kind, verdict.outcome] += 1
        if verdict.outcome in (*judge.FAILING, "obscure", "unjudged"):
            self.bad.append((case, verdict))

    def total(self, outcome: str | None = None, kind: str | None = None) -> int:
        return sum(
            n for (k, o), n in self.counts.items() if outcome in (None, o) and kind in (None, k)
        )

    def faults(self) -> list[str]:
        """Why the run fails, or nothing."""
        everything = max(1, self.total())
        faults = [f"{self.total(o)} {o}" for o in judge.FAILING if self.total(o)]
        for outcome, most in (("obscure", judge.MOST_OBSCURE), ("unjudged", judge.MOST_UNJUDGED)):
            if self.total(outcome) > most * everything:
                faults.append(f"{self.total(outcome) / everything:.1%} {outcome}, over {most:.0%}")
        return faults

    def __str__(self) -> str:
        kinds = list(dict.fromkeys(kind for kind, _ in self.counts))
        lines = [["", "cases", *OUTCOMES]]
        for kind in (*kinds, None):
            counts = [self.total(outcome, kind) for outcome in OUTCOMES]
            lines.append([kind or "all", *map(str, (self.total(None, kind), *counts))])
        return "\n".join(
            line[0].ljust(12) + "".join(cell.rjust(10) for cell in line[1:]) for line in lines
        )

    def details(self, outcomes: tuple[str, ...], most: int = 10**6) -> str:
        """The cases with these outcomes, each with what was seen."""
        chosen = [(c, v) for o in outcomes for c, v in self.bad if v.outcome == o]
        lines = [f"{v.outcome:8} {c.id}\n         {' '.join(v.detail.split())}" for c, v in chosen]
        left = [f"… and {len(lines) - most} more"] if len(lines) > most else []
        return "\n".join(lines[:most] + left).encode("utf-8", "backslashreplace").decode()
