"""Bind a SELECT: its tables and subqueries become relations, with conditions and columns pushed into them.

In the bound tree a marker stands for each of them, `__source_1` for a table or derived table, `__query_1` for a
subquery in an expression, and `Block.fill` writes, for one cloud, what each marker is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from catchment.federation.dialect import write
from catchment.federation.estimates import selectivity
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, Unplanned, derived, name_of, wrap
from catchment.federation.rules.push_filters import Pushed, push_filters
from catchment.federation.rules.scan import scan

__all__ = ["Block", "Source", "bind"]

_SOURCE = "__source_"
_QUERY = "__query_"
_UNPLANNED_CLAUSES = ("sort", "distribute", "cluster", "connect", "match", "prewhere", "settings", "format", "kind")


@dataclass(frozen=True, slots=True)
class Source:
    """A relation in a FROM clause, and how it is joined to those before it."""

    alias: str
    relation: Relation
    side: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A SELECT whose relations are known."""

    select: exp.Select
    """With markers in place of sources and subqueries."""
    sources: tuple[Source, ...]
    queries: tuple[Relation | Block, ...]
    """The subqueries in expressions; those that name columns of an outer block are blocks."""
    columns: tuple[str, ...]
    stable: bool = True
    targets: tuple[str, ...] = ()
    pivot: int | None = None
    why: str = ""
    reduced: Mapping[int, Relation] = field(default_factory=dict)
    """Sources that a Bloom filter made smaller, by their number."""
    outermost: bool = False
    """Whether its rows are the answer, and no other step's."""

    def relations(self) -> list[Relation]:
        """All that the block reads, those of its subqueries as well."""
        found = [source.relation for source in self.sources]
        for query in self.queries:
            found += query.relations() if isinstance(query, Block) else [query]
        return found

    def is_correlated(self, tree: exp.Expr) -> bool:
        """Whether a part of the block holds a subquery that names columns of the block's relations."""
        markers = (table.name for table in tree.find_all(exp.Table) if table.name.startswith(_QUERY))
        return any(isinstance(self.queries[int(marker[len(_QUERY) :])], Block) for marker in markers)

    def fill(self, planner: Planning, tree: exp.Expr, cloud: str, *, parts: bool = False) -> exp.Select:
        """A tree with markers as it runs in one cloud; with `parts` the pivot is that cloud's part only."""

        def relation_of(number: int) -> exp.Query:
            relation = self.reduced.get(number, self.sources[number].relation)
            if parts and number == self.pivot:
                return relation.pieces[cloud].copy()
            return planner.whole(relation, cloud)

        def query_of(number: int) -> exp.Query:
            query = self.queries[number]
            if isinstance(query, Block):
                return query.fill(planner, query.select, cloud)
            return planner.whole(query, cloud)

        return _filled(tree, self, relation_of, query_of)

    def standin(self, tree: exp.Expr | None = None) -> exp.Select:
        """The block over nothing: its columns have the same types, and no table is read."""

        def query_of(number: int) -> exp.Query:
            query = self.queries[number]
            return query.standin() if isinstance(query, Block) else query.standin.copy()

        return _filled(
            self.select if tree is None else tree,
            self,
            lambda number: self.sources[number].relation.standin.copy(),
            query_of,
        )

    def rows(self) -> float:
        """How many rows the joined and filtered relations have, about: a join keeps the larger side's."""
        if not self.sources:
            return 1.0
        rows = max(source.relation.rows for source in self.sources)
        where = self.select.args.get("where")
        return max(1.0, rows * (selectivity(where.this) if where else 1.0))

    def width(self) -> float:
        return 9.0 * max(1, len(self.columns))


def bind(planner: Planning, select: exp.Select, env: Mapping[str, Relation]) -> Block:
    """The block of a qualified SELECT."""
    for clause in _UNPLANNED_CLAUSES:
        if select.args.get(clause):
            raise Unplanned(f"a clause {clause.upper()} BY")
    select = select.copy()
    select.set("with_", None)
    nodes = _source_nodes(select)
    if len({node.alias_or_name.lower() for node, _ in nodes}) < len(nodes):
        raise Unplanned("two relations of one name")  # which Spark allows where a semi join hides the first
    if select.args.get("laterals") and len(nodes) > 1:
        raise Unplanned("a LATERAL VIEW beside a join")
    pushed = push_filters(select, [node.alias_or_name for node, _ in nodes])
    sources = []
    for number, (node, join) in enumerate(nodes):
        alias = node.alias_or_name
        relation = _source(planner, select, node, env, pushed)
        side, kind = (join.side.upper(), join.kind.upper()) if join is not None else ("", "")
        if join is not None and (
            join.args.get("using") or join.method or kind not in ("", "INNER", "CROSS", "SEMI", "ANTI", "OUTER")
        ):
            raise Unplanned(f"a join of kind {join.method or kind or 'USING'}")
        sources.append(Source(alias, relation, side, kind))
        node.replace(exp.Table(this=name_of(f"{_SOURCE}{number}"), alias=exp.TableAlias(this=name_of(alias))))
    queries = _bind_queries(planner, select, env)
    columns = tuple(projection.alias_or_name for projection in select.expressions)
    stable = select.args.get("limit") is None or select.args.get("order") is not None
    return Block(select, tuple(sources), tuple(queries), columns, stable)


def _source_nodes(select: exp.Select) -> list[tuple[exp.Expr, exp.Join | None]]:
    start = select.args.get("from_")
    joins = select.args.get("joins") or []
    nodes: list[tuple[exp.Expr, exp.Join | None]] = [(start.this, None)] if start is not None else []
    nodes += [(join.this, join) for join in joins]
    for node, _ in nodes:
        if not isinstance(node, exp.Table | exp.Subquery | exp.Values):
            raise Unplanned(f"{type(node).__name__} in FROM")
        if node.args.get("pivots") or node.args.get("sample") or node.args.get("joins"):
            raise Unplanned("PIVOT or a nested join in FROM")
        if node.args.get("laterals"):
            raise Unplanned("a LATERAL VIEW of a table in FROM")
    return nodes


def _source(
    planner: Planning, select: exp.Select, node: exp.Expr, env: Mapping[str, Relation], pushed: Pushed
) -> Relation:
    alias = node.alias_or_name
    conditions = pushed.get(alias, [])
    used = {part.name for part in select.find_all(exp.Column) if part.table == alias}
    used |= {part.name for condition in conditions for part in condition.find_all(exp.Column)}
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and node.name not in env:
        outputs = {part.name for part in select.find_all(exp.Column) if part.table == alias}
        return scan(planner, planner.catalog.table(node.name), alias, outputs, conditions)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        relation = env[node.name]
    elif isinstance(node, exp.Table | exp.Values):
        return _constant(node, conditions)
    else:
        if node.args["alias"] is not None and node.args["alias"].args.get("columns"):
            raise Unplanned("a derived table that names its columns")
        relation = planner.relation(node.this, env)
    if len(set(relation.columns)) < len(relation.columns):
        raise Unplanned("a derived table has two columns of one name")
    joined = bool(select.args.get("joins"))
    if relation.limit is not None or relation.offset or (joined and not relation.stable):
        relation = planner.settled(relation)  # each of the block's clouds must see the same rows
    columns = tuple(name for name in relation.columns if name in used) or relation.columns[:1]
    if not conditions and (not joined or isinstance(node, exp.Table) or columns == relation.columns):
        return relation
    kept = 1.0
    for condition in conditions:
        kept *= selectivity(condition)
    return relation.mapped(
        lambda query: wrap(query, alias, columns, conditions), columns=columns, rows=max(1.0, relation.rows * kept)
    )


def _constant(node: exp.Expr, conditions: list[exp.Expr]) -> Relation:
    """VALUES and table functions: any cloud can answer them."""
    bare = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.copy()))
    if conditions:
        bare.set("where", exp.Where(this=exp.and_(*[one.copy() for one in conditions], copy=False)))
    names = node.args["alias"].args.get("columns") if node.args.get("alias") else None
    columns = tuple(name.name for name in names or [])
    return Relation({}, columns, bare, 10.0, 16.0, constant=bare)


def _bind_queries(planner: Planning, select: exp.Select, env: Mapping[str, Relation]) -> list[Relation | Block]:
    """Put markers in place of the subqueries of a SELECT's expressions."""
    found: list[Relation | Block] = []
    for query in list(_subqueries(select)):
        if _is_correlated(query):
            if not isinstance(query, exp.Select):
                raise Unplanned("a correlated subquery that is a set operation")
            inner_env = planner.with_clause(query, env)
            bound: Relation | Block = bind(planner, query, inner_env)
        else:
            bound = planner.relation(query, env)
            if bound.limit is not None or bound.offset or not bound.stable:
                bound = planner.settled(bound)
        marker = exp.Select(
            expressions=[exp.Star()], from_=exp.From(this=exp.Table(this=name_of(f"{_QUERY}{len(found)}")))
        )
        query.replace(marker)
        found.append(bound)
    return found


def _subqueries(node: exp.Expr) -> Iterator[exp.Query]:
    """The outermost queries below a SELECT; its sources are markers already."""
    for child in node.iter_expressions():
        if isinstance(child, exp.Select | exp.SetOperation):
            yield child
        else:
            yield from _subqueries(child)


def _is_correlated(query: exp.Query) -> bool:
    """Whether it names a column of a relation that is not its own."""
    own = {source.alias_or_name for source in query.find_all(exp.Table, exp.Subquery, exp.Values)}
    own |= {alias.name for lateral in query.find_all(exp.Lateral) if (alias := lateral.args.get("alias"))}
    return any(part.table and part.table not in own for part in query.find_all(exp.Column))


def _filled(tree: exp.Expr, block: Block, relation_of: object, query_of: object) -> exp.Select:
    tree = tree.copy()
    for table in list(tree.find_all(exp.Table)):
        if table.name.startswith(_QUERY):
            marker = table.find_ancestor(exp.Select)
            assert marker is not None
            marker.replace(query_of(int(table.name[len(_QUERY) :])))  # type: ignore[operator]
    for table in list(tree.find_all(exp.Table)):
        if table.name.startswith(_SOURCE) and _belongs(table, tree):
            number = int(table.name[len(_SOURCE) :])
            table.replace(derived(relation_of(number), block.sources[number].alias))  # type: ignore[operator]
    assert isinstance(tree, exp.Select), write(tree)
    return tree


def _belongs(table: exp.Table, tree: exp.Expr) -> bool:
    """Whether a marker is the tree's own: those of inner blocks are filled before they are put in."""
    return table.find_ancestor(exp.Select) is tree
