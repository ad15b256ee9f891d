"""Calls in SQL, looked at while the query is analysed: what is wrong raises from `spark.sql`, before any task runs.

Spark's own Python UDFs are first called in tasks. But what its function registry holds for a name is a builder, from
the expressions of a call to one expression, and the registry takes any. Ours asks Python, over the connection that
PySpark keeps for `foreachBatch`: arguments are checked by number and type, parameters are evaluated and the prototype
is built from them, and the expression that comes back is the Arrow UDF with the prototype in it.

Python cannot throw a Java exception across that connection, so it answers with a `scala.util.Try`, and a class of three
lines, compiled by the compiler that Spark has for its generated code, takes the expression out of it or throws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from catchment.errors import CatchmentError, ParameterError
from catchment.spark.functions.catalog import SqlFunction

__all__ = ["register_checked"]

_CLASS = "catchment.spark.CheckedBuilder"

_SOURCE = """
package catchment.spark;

public final class CheckedBuilder extends scala.runtime.AbstractFunction1 {
  private final java.util.function.Function python;

  private CheckedBuilder(java.util.function.Function python) { this.python = python; }
  public CheckedBuilder() { this(null); }
  public CheckedBuilder asking(java.util.function.Function python) { return new CheckedBuilder(python); }

  public Object apply(Object arguments) { return ((scala.util.Try) this.python.apply(arguments)).get(); }
}
"""

_builders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("float", "double", "decimal")


def register_checked(spark: SparkSession, functions: Mapping[str, SqlFunction]) -> None:
    """Register builders that check; for a classic session, whose JVM can call back."""
    context: Any = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    builder = _compiled(gateway, jvm)
    registry = spark._jsparkSession.sessionState().functionRegistry()
    for name, function in functions.items():
        registry.createOrReplaceTempFunction(name, builder.asking(_Check(function, jvm)), "python_udf")


def _compiled(gateway: Any, jvm: Any) -> Any:
    """A builder that asks nobody yet; compiled once for a JVM, since Py4J tells classes apart by name alone."""
    if gateway not in _builders:
        _builders[gateway] = _compile(gateway, jvm)
    return _builders[gateway]


def _compile(gateway: Any, jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE)
    found = compiler.getClassLoader().loadClass(_CLASS)
    constructor = found.getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))


class _Check:
    """The Java function from a call's arguments to its expression, or to what is wrong with it."""

    class Java:
        implements = ["java.util.function.Function"]

    def __init__(self, function: SqlFunction, jvm: Any) -> None:
        self._function, self._jvm = function, jvm

    def apply(self, arguments: Any) -> Any:
        try:
            return self._jvm.scala.util.Success(self._expression(arguments))
        except CatchmentError as problem:
            text = f"{type(problem).__name__}: {problem}"
            parameters = self._jvm.PythonUtils.toScalaMap({"errorMessage": text})
            error = self._jvm.org.apache.spark.sql.AnalysisException("USER_RAISED_EXCEPTION", parameters)
            return self._jvm.scala.util.Failure(error)

    def _expression(self, arguments: Any) -> Any:
        given, named = [], {}
        for place in range(arguments.length()):
            expression = arguments.apply(place)
            if expression.getClass().getSimpleName() == "NamedArgumentExpression":
                named[expression.key()] = expression.value()
            else:
                given.append(expression)
        udf, columns = self._function.plan(given, named, literal=self._literal, nothing=self._null())
        by_name = {argument.name: argument for argument in self._function.arguments}
        for name, expression in columns.items():
            spark_type = expression.dataType().simpleString()
            if not by_name[name].accepts(spark_type):
                raise by_name[name].refusal(self._function.name, spark_type)
        return udf._unwrapped._judf.builder(self._jvm.PythonUtils.toSeq(list(columns.values())))

    def _null(self) -> Any:
        null: Any = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal.create(
            None, self._jvm.org.apache.spark.sql.types.DataType.fromDDL("BIGINT")
        )
        return null

    def _literal(self, name: str, expression: Any) -> Any:
        """The Python value of a constant expression."""
        if not expression.foldable():
            raise ParameterError(
                f"{self._function.name} was given {expression.sql()} for {name}", f"give a literal for {name}"
            )
        value = expression.eval(None)
        if value is None:
            return None
        kind = expression.dataType().simpleString().split("(")[0]
        if kind in _FRACTIONS:
            return float(value if isinstance(value, float) else value.toString())
        if kind in _INTEGERS or kind == "boolean":
            return value
        return str(value if isinstance(value, str) else value.toString())

    def toString(self) -> str:  # noqa: N802  # Java's name
        return self._function.name
