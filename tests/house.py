"""The house rules, read off the source: which room may import which, and which library lives where.

Imports inside functions count like any other. Each rule returns its violations as lines of text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FLOORS = {
    "errors": 0, "answer": 0,
    "kernel": 1,
    "sketch": 2,
    "window": 3,
    "monitor": 4, "balance": 4, "federation": 4,
    "spark": 5, "net": 5, "testing": 5,
    "app": 6,
}  # fmt: skip
"""Imports go down, or stay in the room; rooms on one floor do not see each other."""

LIBRARIES = {
    "pyspark": {"spark"}, "py4j": {"spark"}, "pandas": {"spark"},
    "socket": {"net"}, "grpc": {"net"}, "google": {"net"}, "ssl": {"net"}, "asyncio": {"net", "app"},
    "typer": {"app"}, "click": {"app"}, "rich": {"app"}, "fastapi": {"app"}, "uvicorn": {"app"}, "starlette": {"app"},
    "altair": {"app"}, "vl_convert": {"app"},
    "numba": {"kernel"},
    "sqlglot": {"federation"},
    "pytest": set(), "hypothesis": set(), "datasketches": {"spark"},
}  # fmt: skip
"""The rooms that may import a library; others may be imported anywhere."""

CORE = ("errors", "answer", "kernel", "sketch", "window", "monitor", "balance")
CORE_LIBRARIES = {"numpy", "numba", "catchment"}


def imports(source: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, with the line; also by __import__ and importlib."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "relative import"
            elif node.module == "catchment":
                yield from ((node.lineno, f"catchment.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module or ""
        elif isinstance(node, ast.Call) and _called(node) in {"__import__", "import_module"}:
            yield from ((node.lineno, str(name.value)) for name in node.args[:1] if isinstance(name, ast.Constant))


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def room_of(source: Path, package: Path) -> str:
    first = source.relative_to(package).parts[0]
    return first.removesuffix(".py")


def violations(package: Path) -> list[str]:
    """Upward imports, rooms that look at a neighbour, libraries outside their room, cycles between files."""
    found: list[str] = []
    graph: dict[str, set[str]] = {}
    for source in sorted(package.rglob("*.py")):
        room = room_of(source, package)
        if room == "__init__":
            continue  # the list of public names is above all floors
        module = ".".join(("catchment", *source.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        graph[module] = set()
        if room not in FLOORS:
            found.append(f"{source}: room {room} has no floor")
            continue
        for line, name in imports(source):
            found += [f"{source}:{line}: {problem}" for problem in _problems(room, name)]
            graph[module].add(name)
    return found + [f"cycle: {' -> '.join(cycle)}" for cycle in cycles(graph)]


def _problems(room: str, name: str) -> Iterator[str]:
    top, *rest = name.split(".")
    if name == "relative import":
        yield "a relative import: name the room"
    elif name == "catchment":
        yield "imports the whole package: name the room"
    elif top == "catchment":
        other = rest[0]
        if other not in FLOORS:
            yield f"{other} is not a room"
        elif other != room and FLOORS[other] >= FLOORS[room]:
            yield f"{room} (floor {FLOORS[room]}) imports {other} (floor {FLOORS[other]})"
    elif room not in LIBRARIES.get(top, {room}):
        yield f"{top} outside {sorted(LIBRARIES[top])}"


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Each cycle of imports between files, once."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append([*path[path.index(module) :], module])
            return
        if module in done:
            return
        for other in sorted(graph[module] & graph.keys()):
            visit(other, [*path, module])
        done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


def uncollected(tests: Path) -> list[str]:
    """Functions that look like tests and that pytest would pass over, and tests that a later one replaces."""
    found = []
    for source in sorted(tests.rglob("*.py")):
        tree = ast.parse(source.read_text())
        scopes: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
        while scopes:
            scope, body = scopes.pop()
            names: set[str] = set()
            for node in body:
                if isinstance(node, ast.ClassDef):
                    scopes.append((node.name, node.body))
                    if _is_meant_to_run(node.name) and not node.name.startswith("Test"):
                        found.append(f"{source}:{node.lineno}: class {node.name} is not collected: call it Test…")
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                found += [f"{source}:{node.lineno}: {problem}" for problem in _overlooked(source, scope, node, names)]
                names.add(node.name)
    return found


def _overlooked(
    source: Path, scope: str, node: ast.FunctionDef | ast.AsyncFunctionDef, before: set[str]
) -> Iterator[str]:
    if not _is_meant_to_run(node.name) or any("fixture" in ast.unparse(d) for d in node.decorator_list):
        return
    if not source.name.startswith("test_"):
        yield f"{node.name} is in a file that is not collected: call it test_….py"
    elif not node.name.startswith("test_"):
        yield f"{node.name} is not collected: call it test_…"
    elif scope and not scope.startswith("Test"):
        yield f"{node.name} is in class {scope}, which is not collected"
    elif node.name in before:
        yield f"{node.name} replaces an earlier test of that name"
    elif isinstance(node, ast.AsyncFunctionDef):
        yield f"{node.name} is async and would not run"


def _is_meant_to_run(name: str) -> bool:
    words = name.lower().strip("_").split("_")
    return bool({"test", "tests", "should", "tset", "testing"} & set(words)) or words[0].startswith(("test", "oshould"))
