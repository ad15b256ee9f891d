"""The house rules, read off the source: which room may import which, and which library lives where.

Imports inside functions count like any other. Each rule returns its violations as lines of text.
"""

from __future__ import annotations

import ast
import sys
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
    "socket": {"net"}, "_socket": {"net"}, "socketserver": {"net"}, "ssl": {"net"}, "http": {"net", "app"},
    "urllib": {"net", "app"}, "ftplib": {"net"}, "smtplib": {"net"}, "xmlrpc": {"net"}, "asyncio": {"net", "app"},
    "grpc": {"net"}, "google": {"net"}, "requests": set(), "httpx": {"net", "app"}, "aiohttp": set(),
    "typer": {"app"}, "click": {"app"}, "rich": {"app"}, "fastapi": {"app"}, "uvicorn": {"app"}, "starlette": {"app"},
    "flask": set(),
    "altair": {"app"}, "vl_convert": {"app"},
    "numba": {"kernel"},
    "sqlglot": {"federation"},
    "pytest": set(), "hypothesis": set(), "datasketches": {"spark"}, "sketch_oxide": {"testing"},
}  # fmt: skip
"""The rooms that may import a library; others may be imported anywhere."""

CORE = ("errors", "answer", "kernel", "sketch", "window", "monitor", "balance")
CORE_LIBRARIES = {*sys.stdlib_module_names, "numpy", "numba", "catchment"}
CORE_EXCEPTIONS = {("keys.py", "pyarrow"), ("keys.py", "pyarrow.compute")}
"""Arrow keys bring their library with them: it is imported only when such keys arrive."""


def imports(source: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, with the line; an import by name at run time counts, whatever the name."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "relative import"
            else:
                yield from ((node.lineno, _module(node.module or "", alias.name, package)) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in {"__import__", "import_module"}:
            literal = node.args and isinstance(node.args[0], ast.Constant)
            yield node.lineno, str(node.args[0].value) if literal else "dynamic import"  # type: ignore[attr-defined]
        elif isinstance(node, ast.alias) and node.name == "import_module":
            yield node.lineno, "dynamic import"


def _module(module: str, name: str, package: Path) -> str:
    """What `from module import name` imports: a file of ours below it, where there is one, or the module."""
    below = package.joinpath(*module.split(".")[1:], name)
    is_file = module.split(".")[0] == "catchment" and (below.with_suffix(".py").exists() or below.is_dir())
    return f"{module}.{name}" if is_file or module == "catchment" else module


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
        module = ".".join(("catchment", *source.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        graph[module] = set()
        if room not in FLOORS and room != "__init__":
            found.append(f"{source}: room {room} has no floor")
            continue
        for line, name in imports(source, package):
            found += [f"{source}:{line}: {problem}" for problem in _problems(room, name, source.name)]
            graph[module].add(name)
    return found + [f"cycle: {' -> '.join(cycle)}" for cycle in cycles(graph)]


def _problems(room: str, name: str, file: str) -> Iterator[str]:
    top, *rest = name.split(".")
    facade = room == "__init__"  # the list of public names: above all floors, but no place for libraries
    if name in ("relative import", "dynamic import"):
        yield f"a {name}: name the module"
    elif name == "catchment":
        yield "imports the whole package: name the room"
    elif top == "catchment":
        if rest[0] not in FLOORS:
            yield f"{rest[0]} is not a room"
        elif not facade and rest[0] != room and FLOORS[rest[0]] >= FLOORS[room]:
            yield f"{room} (floor {FLOORS[room]}) imports {rest[0]} (floor {FLOORS[rest[0]]})"
    elif room not in LIBRARIES.get(top, {room}):
        yield f"{top} outside {sorted(LIBRARIES[top])}"
    elif (room in CORE or facade) and top not in CORE_LIBRARIES and (file, name) not in CORE_EXCEPTIONS:
        yield f"{top} in the core, which needs NumPy and numba alone"


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
    return bool({"test", "tests", "tset"} & set(words)) or words[0].startswith(("test", "should", "oshould"))
