"""Which runs are compared with which, and what their numbers show: no text, no picture."""

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Result = TypeVar("Result")


def cached_method(method: Callable[..., Result]) -> Callable[..., Result]:
    """A method, or a function of one object, that keeps each result with the object, by the other arguments.

    functools.cache would hash the object, which few here allow, and keep it for as long as the program runs.
    """
    name = f"_{method.__name__}_cached"

    @functools.wraps(method)
    def call(self: Any, *arguments: Hashable) -> Result:
        known = self.__dict__.setdefault(name, {})
        if arguments not in known:
            known[arguments] = method(self, *arguments)
        return known[arguments]

    return call
