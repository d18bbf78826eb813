"""SQL relations of source rows, made when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Callable


class Relations(Sequence[str]):
    """
    Relations of the same rows. Each accepts more values than the previous one, and takes more time.

    :param makers: Functions that return a relation. Each is called when the relation is needed, and only once.
    """

    def __init__(self, *makers: Callable[[], str]) -> None:
        self._makers = [cache(make) for make in makers]

    @classmethod
    def of(cls, *relations: str) -> Relations:
        """Return a sequence of existing relations."""
        return cls(*((lambda relation=relation: relation) for relation in relations))

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Relations: ...

    def __getitem__(self, index: int | slice) -> str | Relations:
        """Return a relation, or some of them."""
        return Relations(*self._makers[index]) if isinstance(index, slice) else self._makers[index]()

    def __len__(self) -> int:
        """Return the number of relations."""
        return len(self._makers)
