"""SL-NE (Algorithm 1): sampling rules, block steps, trainer, constraints on M."""
