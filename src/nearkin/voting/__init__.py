"""The soft vote (Eq. 9): kinds of votes, CSLS, ready-made lists of voters."""

from nearkin.voting.votes import Vote

__all__ = ["Vote"]
