"""The sums of gradients over all processes, which begin while the backward pass still runs.

The gradients of all parameters lie in one flat vector, usually in the order in which a forward pass reads the
parameters. The vector is cut into buckets from its end to its beginning: a backward pass usually finishes the gradients
in this order. The sum of a bucket begins once the gradients of this bucket and of all buckets before it are final. So
every rank begins the same sums in the same order, whichever parameters its batch uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from accel.autodiff.arrays import Array
from accel.autodiff.learned import Settle
from accel.training.communicator import Communicator, begin_sum

MOST_BYTES = 25 * 2**20


@dataclass(frozen=True)
class Bucket:
    """Neighbouring parameters, and where their gradients lie in the flat vector."""

    names: tuple[str, ...]
    place: slice


def buckets(places: Mapping[str, slice], most: int) -> list[Bucket]:
    """Return the buckets of a flat vector in the order of their sums: from its end to its beginning.

    A bucket has at most `most` numbers, or one larger parameter. `places` are the slices of the parameters in the
    vector, in the vector's order.

    >>> places = {"embedding": slice(0, 9), "in": slice(12, 14), "out": slice(16, 18)}
    >>> [bucket.names for bucket in buckets(places, 6)]
    [('in', 'out'), ('embedding',)]
    >>> [bucket.place for bucket in buckets(places, 6)]
    [slice(12, 18, None), slice(0, 9, None)]
    """
    result: list[Bucket] = []
    for name, place in reversed(places.items()):
        if result and result[-1].place.stop - place.start <= most:
            last = result.pop()
            result.append(Bucket((name, *last.names), slice(place.start, last.place.stop)))
        else:
            result.append(Bucket((name,), place))
    return result


@dataclass
class Sums:
    """The sums of one step: a model's `loss_and_grad` takes `on_final`, which begins them; `wait` ends them."""

    communicator: Communicator
    gradient: Array
    waiting: list[Bucket]  # whose sums have not begun, in the order of the sums
    final: set[str] = field(default_factory=set)
    begun: list[Callable[[], None]] = field(default_factory=list)

    def on_final(self, name: str, settle: Settle) -> None:
        """Note that the gradient of a parameter is final, and begin the sums of all buckets that are final now."""
        self.final.add(name)
        while self.waiting and self.final.issuperset(self.waiting[0].names):
            bucket = self.waiting.pop(0)
            settle(bucket.names)
            self.begun.append(begin_sum(self.communicator, self.gradient[bucket.place]))

    def wait(self) -> None:
        """Wait until the gradient holds the sums."""
        if self.waiting:
            raise RuntimeError(f"{self.waiting[0].names[0]}: its gradient was never final, so nothing was summed")
        for wait in self.begun:
            wait()
