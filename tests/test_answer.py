from __future__ import annotations

import json

import numpy as np
import pytest

from catchment import Answer, Ranking


def many() -> Answer:
    return Answer(np.array([1, 5]), np.array([0, 4]), np.array([2, 6]), confidence=0.9, epsilon=0.1, window=(0, 60))


def test_one_answer_holds_its_interval() -> None:
    answer = Answer(3, 2, 4, confidence=0.9, epsilon=0.1)
    assert [truth in answer for truth in (1, 2, 3, 4, 5)] == [False, True, True, True, False]


def test_an_answer_to_many_comes_apart() -> None:
    assert [part.value for part in many()] == [1, 5]
    assert many()[1] == Answer(5, 4, 6, confidence=0.9, epsilon=0.1, window=(0, 60))
    assert many().holds(np.array([1, 9])).tolist() == [True, False]
    assert np.array([1, 9]) not in many()
    assert many()[1:].value.tolist() == [5]  # type: ignore[union-attr]


def test_an_answer_to_one_has_no_parts() -> None:
    answer = Answer(3, 2, 4, confidence=0.9, epsilon=0.1)
    with pytest.raises(TypeError, match="one question"):
        len(answer)
    with pytest.raises(TypeError, match="one question"):
        answer[0]


def test_it_is_frozen_and_compares_by_value() -> None:
    with pytest.raises(AttributeError):
        many().value = 3  # type: ignore[misc]
    assert many() == many()
    assert many() != many()[0]
    assert many() != "answer"


def test_it_goes_through_json() -> None:
    assert json.loads(json.dumps(many().to_dict()))["low"] == [0, 4]
    open_ended = Answer(np.array([1.0]), np.array([np.nan]), np.array([np.inf]), confidence=0.9, epsilon=0.1)
    assert "Infinity" not in json.dumps(open_ended.to_dict())
    assert open_ended.to_dict()["high"] == [None]


def test_a_ranking_pairs_keys_with_answers() -> None:
    ranking = Ranking(("a", "b"), many())
    assert [(key, answer.high) for key, answer in ranking] == [("a", 2), ("b", 6)]
    assert len(ranking) == 2
