"""The SQL by which a cloud makes a segment, describes it, and tells of it. Text only.

A segment is Parquet, range-partitioned into files by the column and ordered in each. Row groups are small and pages
smaller, with the smallest and largest value of each in the footer and in the page index: Spark's own reader takes the
predicate and reads only the pages that can hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catchment.federation.index_manifest import Claim, Manifest, SourceFile
from catchment.federation.intervals import Domain, domain_of
from catchment.federation.spark_text import name_text, string_text

__all__ = ["SESSION_SETTINGS", "about_text", "files_text", "make_about_text", "make_segment_text"]

ROW_GROUP_BYTES = 8 << 20
PAGE_ROWS = 500
"""Of which a key that is looked up reads one page."""
FILE_BYTES = 48 << 20
"""Of the source, for each file of a segment: a point opens one file, and a wide range is read by several tasks."""
MOST_FILES = 512
LONGEST_LIST = 500
"""Of listed values, each of which Spark's reader looks for; of more, for all from the smallest to the largest."""
SESSION_SETTINGS = {
    "spark.sql.parquet.pushdown.inFilterThreshold": str(LONGEST_LIST),
    # Times as Parquet keeps statistics of: Spark's default for them has none.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What a session with a cloud sets, for indexes to be as good as they can; none of it changes an answer."""
CUTS = 256
EPSILON, CONFIDENCE, SEED = 0.001, 0.98, 42
KLL_SIZE = 1600  # a rank is off by 0.2 % or less, in about 40 kB


def make_segment_text(claim: Claim, segment: str, files: Sequence[SourceFile]) -> str:
    """Copy the rows of some files, in order; of these files alone, whatever was added since they were listed."""
    column = name_text(claim.column)
    parts = max(1, min(MOST_FILES, round(sum(file.size for file in files) / FILE_BYTES)))
    options = {"parquet.block.size": ROW_GROUP_BYTES, "parquet.page.row.count.limit": PAGE_ROWS}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    return (
        f"CREATE TABLE {segment} USING parquet OPTIONS ({listed}) AS "
        f"SELECT /*+ REPARTITION_BY_RANGE({parts}, {column}) */ {', '.join(map(name_text, claim.covered))} "
        f"FROM {name_text(claim.table)} WHERE {in_files(file.path for file in files)} SORT BY {column}"
    )


def in_files(paths: Iterable[str]) -> str:
    """A condition on the source: only these files, which Spark picks before it opens any."""
    return f"_metadata.file_path IN ({', '.join(map(string_text, paths))})"


def make_about_text(claim: Claim, segment: str, about: str, manifest: Manifest) -> str:
    """Sketch a segment's column in one pass, and write the row that makes the segment count."""
    column, value = name_text(claim.column), _sketched(claim)
    domain = domain_of(claim.type)
    counts = "NULL" if domain is Domain.REAL else f"count_min_sketch({value}, {EPSILON}D, {CONFIDENCE}D, {SEED})"
    quantiles, cuts = "CAST(NULL AS BINARY)", "CAST(NULL AS ARRAY<STRING>)"
    if domain is Domain.TEXT:
        cuts = f"(SELECT array_sort(collect_list({column})) FROM ({_every_nth(segment, column)}))"
    else:
        quantiles = f"kll_sketch_agg_{'double' if domain is Domain.REAL else 'bigint'}({value}, {KLL_SIZE})"
    width = f"coalesce(avg(length({column})), 0D)" if domain is Domain.TEXT else "8D"
    distinct = f"CAST({value} AS STRING)" if domain is Domain.REAL else value
    return (
        f"CREATE TABLE {about} USING parquet AS SELECT {string_text(manifest.to_text())} AS manifest, "
        f"count(*) AS rows, count(*) - count({column}) AS nulls, {width} AS width, "
        f"hll_sketch_agg({distinct}) AS distinct, CAST({counts} AS BINARY) AS counts, {quantiles} AS quantiles, "
        f"{cuts} AS cuts, (SELECT collect_list(part) FROM ({_parts(claim, segment)})) AS parts FROM {segment}"
    )


def _sketched(claim: Claim) -> str:
    """The column as the sketches take it: in the domain in which literals are compared."""
    column = name_text(claim.column)
    if claim.type == "timestamp_ntz":
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {column})"
    match domain_of(claim.type):
        case Domain.DATE:
            return f"CAST(unix_date({column}) AS BIGINT)"
        case Domain.TIMESTAMP:
            return f"unix_micros({column})"
        case Domain.WHOLE:
            return f"CAST({column} AS BIGINT)"
        case Domain.REAL:
            return f"CAST({column} AS DOUBLE)"
        case _:
            return f"CAST({column} AS STRING)"


def _every_nth(segment: str, column: str) -> str:
    """About `CUTS` values, equally far apart in the order: tasks read a file in its order and count from zero."""
    place = f"(monotonically_increasing_id() & {(1 << 33) - 1})"
    step = f"(SELECT greatest(1, count({column}) DIV {CUTS}) FROM {segment})"
    return f"SELECT {column} FROM (SELECT {column}, {place} AS place FROM {segment}) WHERE place % {step} = 0"


def _parts(claim: Claim, segment: str) -> str:
    low, high = (f"CAST({end}({_sketched(claim)}) AS STRING)" for end in ("min", "max"))
    return (
        f"SELECT struct(name, count(*) AS rows, {low} AS low, {high} AS high) AS part FROM "
        f"(SELECT {name_text(claim.column)}, _metadata.file_name AS name FROM {segment}) GROUP BY name"
    )


def about_text(abouts: Iterable[tuple[str, str]]) -> str:
    """Ask for what is known of segments, given as their `about` tables and the types of their columns."""
    return " UNION ALL ".join(_told(about, type_) for about, type_ in abouts)


def _told(about: str, type_: str) -> str:
    ranks = ", ".join(f"{place / CUTS}D" for place in range(CUTS + 1))
    kind = "double" if domain_of(type_) is Domain.REAL else "bigint"
    cuts = "cuts"
    if domain_of(type_) is not Domain.TEXT:
        quantiles = f"kll_sketch_get_quantile_{kind}(quantiles, array({ranks}))"
        cuts = f"CASE WHEN rows > nulls THEN CAST({quantiles} AS ARRAY<STRING>) END"
    return (
        f"SELECT {string_text(about)} AS about, manifest, rows, nulls, width, "
        f"hll_sketch_estimate(distinct) AS distinct, counts, {cuts} AS cuts, parts FROM {about}"
    )


def files_text(locations: Iterable[str]) -> str:
    """List the files below some folders without reading them, one task a folder; each location with its own."""
    return " UNION ALL ".join(
        f"SELECT /*+ COALESCE(1) */ {string_text(location)} AS location, _metadata.file_path AS path, "
        f"_metadata.file_size AS size, unix_micros(_metadata.file_modification_time) AS changed "
        f"FROM binaryFile.{name_text(location)}"
        for location in locations
    )
