"""How a fit is executed: visiting order, quantisation, neighbour search, reporting."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from nearkin.native.vectors import CACHE_BYTES
from nearkin.neighbors.retrieval import Retrieval, retrieval_problem
from nearkin.validation import expect
from nearkin.validation.parameters import ParameterGroup, Table

Order = Literal["random", "local", "given"]
ORDERS: tuple[Order, ...] = ("random", "local", "given")

# Rows per dimension up to which their int8 copy is no larger than eight matrices.
_FEW_ROWS = 32


@dataclass(repr=False)
class Execution(ParameterGroup):
    """How `SLNE` runs: speed, memory and reporting; some of it changes the learned matrix, too.

    Only `verbose` never changes M. `order` changes the sequence of the steps; `index`, `refresh`
    and `hub_limit` change the neighbours; ``quantize=True`` changes M with rules that need all
    scores; `callback` can end a fit early.

    Parameters
    ----------
    order : {"random", "local", "given"}
        Order in which an epoch visits the rows. ``"local"``: cells of near rows in random order,
        and their rows in random order; successive rows then share neighbours, which stay in the
        processor's cache.
    quantize : bool or "auto"
        Score neighbours by an int8 copy of the rows first: a quarter as much to read. Rules that
        look at extreme scores only (``hardest``, ``random_target``) then score exactly where the
        error bound leaves a choice, and M stays the same to the last bit; for other rules it is an
        approximation. ``"auto"``: where M stays the same and the copy is no larger than eight
        matrices.
    index : str or Retrieval
        How neighbours are found: see `nearkin.neighbors.nearest`. In the space that M is
        learned in, or in another one by a `nearkin.Retrieval`.
    refresh : int
        Learn so many times again, with neighbours searched anew under what was learned, by dot
        product, beside the plain ones: for an index that is searched as a whole. With early
        stopping, a round is kept only if held-out rows gain.
    hub_limit : float or None
        A row in more than this many times the mean number of lists is a hub, and keeps only so
        many of them as neighbours: see `nearkin.neighborhoods.neighborhoods`.
    verbose : int
        1 prints one line per epoch.
    callback : callable, optional
        Called as ``callback(epoch, model)`` after each epoch; returning True stops the fit.
    """

    order: Order = "random"
    quantize: bool | Literal["auto"] = "auto"
    index: str | Retrieval = "auto"
    refresh: int = 0
    hub_limit: float | None = 10.0
    verbose: int = 0
    callback: Callable[[int, Any], object] | None = None

    PARAMETERS: ClassVar[Table] = {
        "order": expect.choice(*ORDERS),
        "quantize": expect.either(expect.flag, expect.choice("auto")),
        "index": retrieval_problem,
        "refresh": expect.whole(0, 10),
        "hub_limit": expect.optional(expect.number(1)),
        "verbose": expect.verbosity,
        "callback": expect.optional(expect.function),
    }

    def quantizes(self, extreme: bool, rows: int, dims: int) -> bool:
        """Whether rows of this shape are scored by their int8 copy first.

        ``"auto"`` does so where it costs nothing: not the result, nor more memory than a few
        matrices; and only where the rows do not fit into the cache anyway.
        """
        if self.quantize != "auto":
            return bool(self.quantize)
        return extreme and 4 * rows * dims > CACHE_BYTES and rows <= _FEW_ROWS * dims
