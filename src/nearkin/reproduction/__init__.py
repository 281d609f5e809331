"""The paper's tables and figures, one small module each; ``nearkin reproduce`` runs them."""

ITEMS = ("table1", "figure1", "table2", "figure2", "figure3", "figure4", "table3", "figure5",
         "table4")  # fmt: skip
