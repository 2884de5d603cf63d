"""Which runs are compared with which, and what their numbers show: no text, no picture."""

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

Result = TypeVar("Result")
Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")


def cached_method(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """A method, or a function of one object, that keeps each result with the object, by the other arguments.

    functools.cache would hash the object, which few here allow, and keep it for as long as the program runs.
    """
    name = f"_{method.__name__}_cached"

    def call(self: Owner, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        results: dict[Any, Result] = self.__dict__.setdefault(name, {})
        key = (arguments, *named.items())
        if key not in results:
            results[key] = method(self, *arguments, **named)
        return results[key]

    functools.update_wrapper(call, method)
    return call
