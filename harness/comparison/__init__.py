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
    """Caches the results of a method, or of a function of one object, on the object, by the other arguments.

    functools.cache needs a hashable object and keeps it alive until the program ends.
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
