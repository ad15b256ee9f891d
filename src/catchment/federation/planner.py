"""From a query to a plan: relations spread over clouds, block by block, from the leaves up.

A *block* is one SELECT. Its tables, derived tables and subqueries are relations first (`bind`); then a *placement* says
in which clouds the block runs: in each cloud that holds a part of one of its relations, the *pivot*, if every other
relation is whole there, because then the block over the union of the parts is the union of the block over each part; or
in one cloud alone. The rules in `RULES`, the first that fits, make a relation of the placed block: partial and final
aggregates, the first n, distinct rows. What no rule knows is answered by sending the filtered columns of the block's
relations to one cloud and running it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from catchment.federation.catalog import Catalog
from catchment.federation.cloud import Purpose
from catchment.federation.dialect import write
from catchment.federation.plan import Keep, Plan, Probe, Put, Run, Step
from catchment.federation.planning import Prices
from catchment.federation.relation import Relation, Unplanned, name_of, select_from
from catchment.federation.rules import RULES
from catchment.federation.rules.bind import Block, bind
from catchment.federation.rules.place import place
from catchment.federation.rules.probe_index import PROBE, ProbeOffer
from catchment.federation.rules.set_operation import set_operation
from catchment.federation.rules.ship import ship
from catchment.federation.rules.use_index import Replacement, use_index

__all__ = ["Planner"]

LEAST_KEPT = 64 * 1024
"""Bytes, as estimated, from which on a cloud keeps its own piece: fewer go out and back as quickly."""


class Planner:
    """Plans one query; its steps grow as relations are needed in clouds.

    Parameters
    ----------
    catalog
        The tables.
    prices
        Of each cloud; the cheapest is the home of final steps.
    query
        The query's name, which every view carries.
    types_of
        Asks an engine for the types of the columns of a query that reads no table.
    sample
        Asks a cloud for the numbers that a query of one column gives.
    """

    def __init__(
        self,
        catalog: Catalog,
        prices: Prices,
        query: str,
        types_of: Callable[[str], Sequence[str]],
        index: Callable[..., Replacement | None] = use_index,
        sample: Callable[[str, str], Sequence[int]] | None = None,
    ) -> None:
        self.catalog = catalog
        self.prices = prices
        self.types_of = types_of
        self.sample = sample
        self.use_index = index
        self.home = min(prices, key=lambda cloud: (sum(prices[cloud]), tuple(prices).index(cloud)))
        self.notes: list[str] = []
        self.probes: list[ProbeOffer] = []
        self._query = query
        self._outermost: exp.Query | None = None
        self._steps: list[Step] = []
        self._runs: dict[tuple[int, str], str] = {}
        self._puts: dict[tuple[int, str, bool], tuple[str, str]] = {}
        self._keeps: dict[tuple[int, str], str] = {}
        self._makers: dict[str, str] = {}  # of views: the steps that make them
        self._known: list[Relation] = []  # so that no id() above is given twice

    def plan(self, tree: exp.Query) -> Plan:
        """The plan of a qualified query."""
        self._outermost = _with_own_names(tree)
        return self.finish(self.relation(self._outermost, {}))

    def finish(self, relation: Relation) -> Plan:
        """A plan whose answer is a relation."""
        if relation.constant is not None:
            relation = replace(relation, pieces={self.home: relation.constant}, constant=None)
        results = tuple(self.run(relation, cloud, Purpose.RESULT) for cloud in relation.pieces)
        return Plan(
            tuple(self._steps), results, self.home, relation.limit, relation.offset, tuple(dict.fromkeys(self.notes))
        )

    def finish_text(self, cloud: str, text: str, purpose: Purpose, why: str) -> Plan:
        """A plan whose answer is what one text gives in one cloud, after all views that it may name are there."""
        makers = tuple(name for view, name in self._makers.items() if view in text)
        run = Run("answer", cloud, text, purpose, makers, why)
        return Plan((*self._steps, run), ("answer",), self.home, notes=tuple(dict.fromkeys(self.notes)))

    def relation(self, query: exp.Expr, env: Mapping[str, Relation]) -> Relation:
        """A query as a relation; `env` are the common table expressions that it sees."""
        env = self.with_clause(query, env)
        if isinstance(query, exp.Subquery):
            if any(query.args.get(part) for part in ("order", "limit", "offset", "joins", "pivots", "sample")):
                raise Unplanned("a parenthesised query has clauses of its own")
            return self.relation(query.this, env)
        if isinstance(query, exp.SetOperation):
            return set_operation(self, query, env)
        if isinstance(query, exp.Values):
            raise Unplanned("VALUES stands alone")
        if not isinstance(query, exp.Select):
            raise Unplanned(f"{type(query).__name__} is not planned")
        return self.block(replace(bind(self, query, env), outermost=query is self._outermost))

    def block(self, block: Block) -> Relation:
        """A bound SELECT as a relation, by the first rule that fits its placement."""
        placed = place(self, block)
        for rule in RULES:
            found = rule(self, placed)
            if found is not None:
                return found
        return ship(self, block, "no rule fits")

    def cheapest(self, relations: Sequence[Relation]) -> str:
        """The cloud to which it costs least to bring all these relations."""

        def cost(cloud: str) -> tuple[float, float]:
            moved = 0.0
            size = 0.0
            for relation in relations:
                for source in relation.pieces:
                    if source != cloud:
                        size += relation.bytes_of(source)
                        moved += relation.bytes_of(source) * (self.prices[source][1] + self.prices[cloud][0])
            return moved, size

        candidates = [self.home, *(cloud for cloud in self.prices if cloud != self.home)]
        return min(candidates, key=cost)

    def whole(self, relation: Relation, cloud: str) -> exp.Query:
        """A query that gives all rows of a relation in one cloud; what is elsewhere is put there."""
        if relation.constant is not None:
            return relation.constant.copy()
        sliced = relation.limit is not None or relation.offset > 0
        if set(relation.pieces) <= {cloud} and not sliced:
            return relation.pieces[cloud].copy()
        beside = cloud in relation.pieces and not sliced
        beside = beside and (relation.scan or self._pays_to_keep(relation, cloud))
        view = self._view(relation, cloud, beside)
        there: exp.Query = select_from(view, relation.columns)
        if sliced:
            there = there.limit(relation.limit, copy=False) if relation.limit is not None else there
            there = there.offset(relation.offset, copy=False) if relation.offset else there
        if not beside:
            return there
        here = relation.pieces[cloud].copy() if relation.scan else self.kept(relation, cloud)
        both = exp.Union(this=here, expression=there, distinct=False)
        return exp.Select(
            expressions=[exp.column(name_of(name)) for name in relation.columns],
            from_=exp.From(this=exp.Subquery(this=both, alias=exp.TableAlias(this=name_of("_both")))),
        )

    def run(self, relation: Relation, cloud: str, purpose: Purpose) -> str:
        """The step that gives the rows of one piece."""
        key = (id(relation), cloud)
        if key not in self._runs:
            self._known.append(relation)
            self._runs[key] = name = f"run{len(self._runs) + 1}"
            self._steps.append(Run(name, cloud, purpose=purpose, **self._asked(relation, cloud)))
        return self._runs[key]

    def _asked(self, relation: Relation, cloud: str) -> dict[str, Any]:
        """What a step that runs a piece knows of it."""
        piece = relation.pieces[cloud]
        named = dict.fromkeys(table.name for table in piece.find_all(exp.Table))
        template, probes = self._probed(piece)
        needs = [self._makers[name] for name in named if name in self._makers]
        return {
            "sql": write(piece),
            "template": template,
            "probes": probes,
            "needs": tuple(dict.fromkeys([*needs, *(run for probe in probes for run in probe.runs)])),
            "why": relation.why,
            "rows": relation.rows_of(cloud),
            "bytes": relation.bytes_of(cloud),
        }

    def _probed(self, piece: exp.Query) -> tuple[str, tuple[Probe, ...]]:
        """A piece with marks for what an index may serve: those leaves whose keys pass by here anyway."""
        piece = piece.copy()
        probes: list[Probe] = []
        for leaf in [node for node in piece.find_all(exp.Select) if PROBE in node.meta and node is not piece]:
            offer = self.probes[leaf.meta[PROBE]]
            runs = [self._runs.get((id(offer.keys), cloud)) for cloud in offer.keys.pieces]
            if None in runs:
                continue
            mark = select_from(f"catchment_{self._query}_probe_{len(probes) + 1}", ("key",))
            leaf.replace(mark)
            probes.append(
                Probe(
                    write(mark), leaf, offer.table, offer.alias, offer.column,
                    tuple(run for run in runs if run), offer.place, self.use_index,
                )
            )  # fmt: skip
        return (write(piece), tuple(probes)) if probes else ("", ())

    @staticmethod
    def _pays_to_keep(relation: Relation, cloud: str) -> bool:
        """Partial results are read once, in one cloud; what several read is run once, and sent to all."""
        return relation.purpose is Purpose.PARTIAL and relation.stable and relation.bytes_of(cloud) >= LEAST_KEPT

    def kept(self, relation: Relation, cloud: str) -> exp.Select:
        """A cloud's own piece, which is run once and stays there as a view."""
        key = (id(relation), cloud)
        if key not in self._keeps:
            self._known.append(relation)
            self._keeps[key] = view = self._new_view()
            self._makers[view] = name = f"keep{len(self._keeps)}"
            self._steps.append(Keep(name, cloud, purpose=relation.purpose, view=view, **self._asked(relation, cloud)))
        return select_from(self._keeps[key], relation.columns)

    def put(self, relation: Relation, cloud: str, sources: Sequence[str], *, merge: str = "rows") -> str:
        """A view in a cloud of the rows of some pieces; its name."""
        runs = tuple(self.run(relation, source, relation.purpose) for source in sources)
        view = self._new_view()
        self._makers[view] = name = f"put{len(self._makers) - len(self._keeps) + 1}"
        self._steps.append(Put(name, cloud, view, runs, relation.purpose, relation.why, merge))
        return view

    def _new_view(self) -> str:
        return f"catchment_{self._query}_{len(self._makers) + 1}"

    def _view(self, relation: Relation, cloud: str, beside: bool) -> str:
        key = (id(relation), cloud, beside)
        if key not in self._puts:
            self._known.append(relation)
            sources = [source for source in relation.pieces if not (beside and source == cloud)]
            self._puts[key] = (self.put(relation, cloud, sources), cloud)
        return self._puts[key][0]

    def with_clause(self, query: exp.Expr, env: Mapping[str, Relation]) -> Mapping[str, Relation]:
        """What a query sees beside `env`: the parts of its WITH."""
        clause = query.args.get("with_")
        if clause is None:
            return env
        if clause.args.get("recursive"):
            raise Unplanned("a recursive WITH")
        known = dict(env)
        for part in clause.expressions:
            alias = part.args["alias"]
            found = self.relation(part.this, known)
            if alias.args.get("columns"):
                raise Unplanned("a WITH that names its columns")
            if not found.stable:
                # What may give other rows the next time is run once, and every reader sees those rows.
                found = self.settled(found)
            known[alias.name] = found
        return known

    def settled(self, relation: Relation) -> Relation:
        """The same rows for every reader: they are put in one cloud, once."""
        cloud = self.cheapest([relation])
        view = self._view(replace(relation, scan=False), cloud, beside=False)
        piece: exp.Query = select_from(view, relation.columns)
        if relation.limit is not None:
            piece = piece.limit(relation.limit, copy=False)
        if relation.offset:
            piece = piece.offset(relation.offset, copy=False)
        return Relation(
            {cloud: piece}, relation.columns, relation.standin, relation.rows, relation.width, why=relation.why
        )


def _with_own_names(tree: exp.Query) -> exp.Query:
    """The query with no two columns of one name, which an answer may have and a view may not; names come back later."""
    if not isinstance(tree, exp.Select):
        return tree
    seen: set[str] = set()
    for number, projection in enumerate(list(tree.expressions)):
        name = projection.alias_or_name
        if name in seen:
            fresh = exp.alias_(projection.unalias().copy(), f"_{number}_{name}", quoted=True)
            tree.expressions[number].replace(fresh)
        seen.add(name)
    return tree
