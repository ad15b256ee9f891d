"""The table of questions: one line for each thing that SQL can ask of a sketch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from catchment.spark.answers import ANSWER_TYPE, RANKING_TYPE
from catchment.spark.functions.arguments import Argument
from catchment.spark.functions.kinds import KINDS, Kind

__all__ = ["BOUNDS", "COUNT", "FLAG", "NUMBER", "QUESTIONS", "RANKING", "RANKING_RESULT", "Question"]

COUNT, NUMBER, FLAG, BOUNDS, RANKING = "count", "number", "flag", "bounds", "ranking"

RANKING_RESULT = StructType([StructField("items", RANKING_TYPE), StructField("note", StringType())])
"""The items, heaviest first, and why there may be fewer than were asked for."""

_RETURNS: dict[str, DataType] = {
    COUNT: LongType(),
    NUMBER: DoubleType(),
    FLAG: BooleanType(),
    BOUNDS: ANSWER_TYPE,
    RANKING: RANKING_RESULT,
}

_RANGE = (Argument("last", "whole", optional=True), Argument("now", "ticks", optional=True))


@dataclass(frozen=True, slots=True)
class Question:
    """A SQL function that asks sketches: what it is called, what it takes, gives and means, and an example of it."""

    kind: Kind
    name: str
    method: str
    output: str
    own: tuple[Argument, ...]
    meaning: str
    example: str
    """What the example gives besides the sketch."""
    result: str
    bounds: str
    """The value, low and high of the twin's example; empty where there is no twin."""

    @property
    def sketches(self) -> int:
        return 2 if self.method == "inner_product" else 1

    @property
    def arguments(self) -> tuple[Argument, ...]:
        names = ("sketch",) if self.sketches == 1 else ("sketch", "other")
        return (*(Argument(name, "sketch") for name in names), *self.own, *_RANGE)

    @property
    def vector(self) -> str | None:
        """The argument that a sketch takes as an array, all rows at once."""
        return "key" if any(argument.name == "key" for argument in self.own) else None

    @property
    def returns(self) -> DataType:
        return _RETURNS[self.output]

    def with_error_bounds(self) -> Question:
        """The twin that gives the whole answer."""
        return replace(
            self,
            name=f"{self.name}_with_error_bounds",
            output=BOUNDS,
            meaning=f"{self.meaning.rstrip('.')}, with the interval that holds the truth.",
        )


_KEY = Argument("key", "key")
_ORDERED_KEY = Argument("key", "ordered")


@dataclass(frozen=True, slots=True)
class _Line:
    """A question as it stands in the table below; `method` where the sketch calls it differently."""

    prefixes: str
    suffix: str
    output: str
    meaning: str
    result: str
    bounds: str = ""
    own: tuple[Argument, ...] = ()
    example: str = ""
    method: str = ""

    def questions(self) -> Iterable[Question]:
        for prefix in self.prefixes.split():
            name = f"{prefix}_sketch_{self.suffix}"
            kind, method = KINDS[prefix], self.method or self.suffix
            question = Question(
                kind, name, method, self.output, self.own, self.meaning, self.example, self.result, self.bounds
            )
            yield question
            if self.bounds:
                yield question.with_error_bounds()


_PHI = (Argument("phi", "number"),)

# The examples ask sketches of three events: ('a', 1, 5), ('b', 2, 7), ('a', 3, 5), as (key, time, value).
_TABLE = (
    _Line("ecm windowed_count_min count_min", "estimate", COUNT,
          "How often a key was seen.", "2", "2, 2, 2", (_KEY,), "'a'"),
    _Line("fast_ams", "estimate", COUNT,
          "How often a key was seen.", "2", "2, 1.81, 2.19", (_KEY,), "'a'"),
    _Line("dyadic", "estimate", COUNT,
          "How often a key was seen.", "2", "2, 2, 2", (_ORDERED_KEY,), "5"),
    _Line("value", "estimate", NUMBER,
          "The mean value of a key; NULL for one that was certainly never seen.",
          "5", "5, 5, 5", (_KEY,), "'a'"),
    _Line("value", "frequency", COUNT,
          "How often a key was seen.", "2", "2, 2, 2", (_KEY,), "'a'"),
    _Line("top_k", "frequency", COUNT,
          "How often a key was seen; 0 for one that is not kept.", "2", "2, 2, 2", (_KEY,), "'a'", "estimate"),
    _Line("bloom", "contains", FLAG,
          "Whether a key may have been added; false is certain.", "True", "", (_KEY,), "'a'"),
    _Line("counter", "estimate", COUNT,
          "The number of events, or the sum of their weights.", "3", "3, 3, 3"),
    _Line("distinct", "estimate", COUNT,
          "The number of distinct keys.", "2", "2, 2, 3"),
    _Line("bloom", "estimate", COUNT,
          "The number of distinct keys.", "2", "2, 2, 4"),
    _Line("ecm dyadic windowed_count_min count_min fast_ams top_k value", "total", COUNT,
          "The number of events, or the sum of their weights.", "3", "3, 3, 3"),
    _Line("ecm dyadic count_min", "self_join", NUMBER,
          "The sum over all keys of their squared frequencies.", "5", "5, 5, 5"),
    _Line("fast_ams", "self_join", NUMBER,
          "The sum over all keys of their squared frequencies.", "5", "5, 4.546, 5.555"),
    _Line("ecm", "inner_product", NUMBER,
          "The sum over all keys of the product of their frequencies in both sketches.", "5", "5, 5, 5"),
    _Line("count_min", "inner_product", NUMBER,
          "The sum over all keys of the product of their frequencies in both sketches.", "5", "5, 4.917, 5"),
    _Line("fast_ams", "inner_product", NUMBER,
          "The sum over all keys of the product of their frequencies in both sketches.", "5", "5, 4.311, 5.689"),
    _Line("tug_of_war", "self_join", NUMBER,
          "The sum over all keys of the squared number of their distinct attributes.", "2.112", "2.112, 2, 9"),
    _Line("tug_of_war", "distinct", COUNT,
          "The number of distinct (key, attribute) pairs.", "2", "2, 2, 4"),
    _Line("bloom", "false_positive_rate", NUMBER,
          "The probability that a key which was never added is found.",
          "1.418e-27", "1.418e-27, 1.418e-27, 1.418e-27"),
    _Line("dyadic", "count_between", COUNT,
          "How many events had a key from `low` to `high`, both included.", "2", "2, 2, 2",
          (Argument("low", "ordered"), Argument("high", "ordered")), "1, 6"),
    _Line("dyadic", "quantile", NUMBER,
          "The smallest key such that a share `rank` of all events have a key up to it; addresses as numbers.",
          "5", "5, 5, 5", (Argument("rank", "number"),), "0.5"),
    _Line("top_k", "estimate", RANKING,
          "The `k` heaviest keys.", "a, 2", "", (Argument("k", "whole"),), "1", "top"),
    _Line("top_k", "heavy_hitters", RANKING,
          "Every key with at least the share `phi` of all events, and maybe some below.", "a, 2", "", _PHI, "0.5"),
    _Line("dyadic", "heavy_hitters", RANKING,
          "Every key with at least the share `phi` of all events, and maybe some below.", "5, 2", "", _PHI, "0.5"),
    _Line("dyadic", "heavy_prefixes", RANKING,
          "Every prefix of keys with at least the share `phi` of all events; addresses give networks.",
          "(0, 268435455), 3", "", _PHI, "0.9"),
)  # fmt: skip

QUESTIONS: dict[str, Question] = {question.name: question for line in _TABLE for question in line.questions()}
