from __future__ import annotations

import inspect
import pickle
import re

import pytest

import catchment.errors as errors

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.CatchmentError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_names_problem_and_cure_and_travels(kind: type[errors.CatchmentError]) -> None:
    error = kind("width=-1", "give a positive width")
    assert str(error) == "width=-1: give a positive width"
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), back.problem, back.cure) == (kind, "width=-1", "give a positive width")


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = set(re.findall(r"\w+Error\b", errors.__doc__ or ""))
    assert drawn == {kind.__name__ for kind in ERRORS}


def test_all_lists_every_class() -> None:
    assert set(errors.__all__) == {kind.__name__ for kind in ERRORS} | {"KernelCacheWarning"}
