"""What is said of the automatic choice."""

from nearkin import Vote
from nearkin.selection.report import report, summary


def trial(name, score, log_loss, rows=80, learner=None):
    return {"preprocess": name, "learner": learner, "epochs": 2, "n_neighbors": 10,
            "vote": Vote("softmax", 0.1, class_weight=0.3), "log_loss": log_loss, "accuracy": 0.9,
            "score": score, "rows": rows}  # fmt: skip


TRIALS = [
    trial("A()", 0.9, 0.1, rows=40),  # on other held-out rows
    trial("B()", 0.7, 0.3, learner={"sampling": "Softmax()"}),
    trial("None", 0.6, 0.2),
]


def test_the_best_so_far_is_so_by_the_chosen_scoring_on_the_same_rows():
    said = summary(TRIALS, "precision")
    assert said.startswith(
        "3 candidates had been tried; by precision the best was precision 0.7000"
    )
    for part in ("log loss 0.3000", "preprocess: B()", "sampling Softmax()", "class means 30%"):
        assert part in said
    assert "\n" not in said
    assert summary([], "log_loss") == "no candidate had been tried"


def test_what_was_chosen_and_what_it_gained():
    lines = report([*TRIALS, TRIALS[1]], "average_precision").splitlines()
    assert lines[:3] == [
        "4 candidates, judged by average precision on held-out rows",
        "plain neighbours of the rows as they are: average precision 0.6000, log loss 0.2000, "
        "accuracy 0.9000",
        "chosen: average precision 0.7000, log loss 0.3000, accuracy 0.9000",
    ]
    assert (
        report([*TRIALS, TRIALS[1]], "classification")
        .splitlines()[2]
        .startswith("chosen: log loss 0.3000")
    )
    assert "too few rows" in report([], "log_loss")
