"""The model card of an adapter, as Markdown."""

from typing import Any

_BEFORE = {"dot": "dot product", "cosine": "cosine", "l2": "Euclidean distance"}


def markdown(card: dict[str, Any], shape: tuple[int, int], metric: str) -> str:
    """What the adapter is, what it was learned from, and what it gained."""
    facts = {
        "index": f"{card.get('index', 'vectors as they are')}, by {_BEFORE[metric]}",
        "columns": f"{shape[0]} → {shape[1]}",
        "learner": card.get("learner"),
        "training data": card.get("data"),
        "nearkin": card.get("nearkin"),
    }
    lines = ["# Adapter", "", "Applied to queries only: `q @ matrix + offset`.", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if value is not None]
    if "after" in card:
        before = {name: f"{value:.4f}" for name, value in card["before"].items()}
        rows = [
            f"| {name} | {before.get(name, '–')} | {value:.4f} |"
            for name, value in card["after"].items()
        ]
        lines += ["", f"Whole index, {card['queries']} queries:", ""]
        lines += ["| | before | after |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"
