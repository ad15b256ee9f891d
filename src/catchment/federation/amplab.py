"""The AMPLab benchmark's two tables at any size, and its queries: SQL text that each cloud runs by itself.

`rankings` and `uservisits` are functions of a seed and a row's number, so a cloud makes its own rows with a SELECT over
`range`: nothing is installed there and no row crosses a border. Cloud `part` of `parts` makes every `parts`-th row; all
parts together are the same table whatever `parts` is.

The shapes are those of the published data (github.com/amplab/benchmark; Pavlo et al., SIGMOD 2009):

- a page's URL has 10 to 100 characters, all lengths alike;
- a page's rank is Pareto with exponent 2 from 20 on, blurred by some units: half of the pages have less than 30,
  4 % more than 100, 0.04 % more than 1,000, and one of n pages has about 20 √n;
- visits go to all pages alike, on all days from 1970 to April 2012 alike, from addresses that hardly repeat.

Revenue is a multiple of 2^-20, so that sums of it are exact in any order: answers of two engines are equal or wrong.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

__all__ = [
    "DAYS_SQL", "FIRST_DAY", "LAST_DAY", "QUERIES", "RANKS_SQL", "SELECTIVE", "drawn_queries", "rankings_sql",
    "uservisits_sql",
]  # fmt: skip

FIRST_DAY, LAST_DAY = date(1970, 1, 1), date(2012, 4, 30)

RANKS_SQL = "SELECT pageRank AS value, count(*) AS rows FROM rankings GROUP BY pageRank"
DAYS_SQL = "SELECT visitDate AS value, count(*) AS rows FROM uservisits GROUP BY visitDate"
"""What parameters are drawn from: the values in the data, with how many rows have each."""

FEW_HUNDRED = (100, 1000)
"""The selective queries "return a few hundreds of results": a rank is drawn from those that so many pages have."""

_JOIN = (
    "SELECT sourceIP, totalRevenue, avgPageRank FROM (SELECT UV.sourceIP AS sourceIP, AVG(R.pageRank) AS avgPageRank, "
    "SUM(UV.adRevenue) AS totalRevenue FROM rankings AS R JOIN uservisits AS UV ON R.pageURL = UV.destURL "
    "WHERE UV.visitDate BETWEEN DATE'{x}' AND DATE'{y}' GROUP BY UV.sourceIP) AS visitors "
    "ORDER BY totalRevenue DESC, sourceIP LIMIT 1"
)
_REVENUE = (
    "SELECT SUBSTR(sourceIP, 1, {x}) AS prefix, SUM(adRevenue) AS revenue FROM uservisits "
    "GROUP BY SUBSTR(sourceIP, 1, {x})"
)

QUERIES: Mapping[str, str] = {
    "Q1a": "SELECT pageURL, pageRank FROM rankings WHERE pageRank > 1000",
    "Q1b": "SELECT pageURL, pageRank FROM rankings WHERE pageRank > 100",
    "Q2a": _REVENUE.format(x=8),
    "Q2b": _REVENUE.format(x=10),
    "Q3a": _JOIN.format(x="1980-01-01", y="1980-04-01"),
    "Q3b": _JOIN.format(x="1980-01-01", y="1983-01-01"),
    "Q4": "SELECT pageURL, pageRank FROM rankings WHERE pageRank = {x}",
    "Q5": "SELECT sourceIP FROM uservisits WHERE visitDate = DATE'{x}'",
    "Q6": "SELECT pageURL, pageRank FROM rankings WHERE pageRank >= {x} AND pageRank <= {y}",
    "Q7": "SELECT sourceIP FROM uservisits WHERE visitDate BETWEEN DATE'{x}' AND DATE'{y}'",
    "Q8": _JOIN,
    "Q9": "SELECT SUBSTR(sourceIP, 1, 10) AS prefix, SUM(adRevenue) AS revenue FROM uservisits "
    "WHERE visitDate BETWEEN DATE'{x}' AND DATE'{y}' GROUP BY SUBSTR(sourceIP, 1, 10)",
}
"""Table 1 of the paper. Q3 and Q8 break ties by the address, without which LIMIT 1 has several right answers."""

SELECTIVE = ("Q4", "Q5", "Q6", "Q7", "Q8", "Q9")
"""Those with parameters that are drawn from the data."""

_AGENTS = (
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
    "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 5.2)",
    "Mozilla/4.0 (compatible; MSIE 7.0; Windows NT 6.0)",
    "Mozilla/5.0 (Windows; U; Windows NT 5.2) AppleWebKit/525.13 (KHTML, like Gecko) Safari/525.13",
    "Mozilla/5.0 (X11; U; Linux i686; en-US) Gecko/2008092416 Firefox/3.0.3",
    "Mozilla/5.0 (Macintosh; U; Intel Mac OS X; en) AppleWebKit/522.11 (KHTML, like Gecko) Version/3.0.2 Safari/522.12",
    "Opera/9.80 (Windows NT 6.1; U; en) Presto/2.2.15 Version/10.00",
    "Lynx/2.8.6rel.4 libwww-FM/2.14 SSL-MM/1.4.1",
)
_LANGUAGES = (
    "ARG-ES", "AUS-EN", "AUT-DE", "BEL-FR", "BEL-NL", "BGR-BG", "BRA-PT", "CAN-EN", "CAN-FR", "CHE-DE", "CHE-FR",
    "CHE-IT", "CHL-ES", "CHN-ZH", "COL-ES", "CZE-CS", "DEU-DE", "DNK-DA", "EGY-AR", "ESP-ES", "EST-ET", "FIN-FI",
    "FRA-FR", "GBR-EN", "GRC-EL", "HUN-HU", "IND-HI", "IRL-EN", "ISL-IS", "ISR-IW", "ITA-IT", "JPN-JA", "KEN-SW",
    "KOR-KO", "LTU-LT", "LUX-DE", "LUX-FR", "LVA-LV", "MAR-AR", "MEX-ES", "MLT-MT", "NLD-NL", "NOR-NO", "NZL-EN",
    "PER-ES", "POL-PL", "PRT-PT", "ROU-RO", "RUS-RU", "SGP-ZH", "SVK-SK", "SVN-SL", "SWE-SV", "THA-TH", "TUN-AR",
    "TUR-TR", "UKR-UK", "URY-ES", "USA-EN", "USA-ES", "VEN-ES", "VNM-VI", "YEM-AR", "ZAF-EN",
)  # fmt: skip
_WORDS = 1000


def rankings_sql(rows: int, *, seed: int = 0, part: int = 0, parts: int = 1, files: int = 2) -> str:
    """A SELECT of pages `part`, `part + parts`, … of `rows` pages: pageURL, pageRank, avgDuration; written as `files`.

    >>> rankings_sql(10, part=1, parts=2).split(" FROM ")[1]
    'range(1, 10, 2, 2)'
    """
    blur = " + ".join(f"({_bits('id', seed, 2)} >> {shift} & 65535)" for shift in (0, 16, 32, 48))
    # The sum of four uniform numbers is nearly normal, with a deviation of 37,837: 2.4 units of rank.
    rank = f"greatest(1, int(round(20 / sqrt({_unit('id', seed, 1)}) + ({blur} - 131070) * 2.4 / 37837)))"
    return (
        f"SELECT {_url('id', seed)} AS pageURL, {rank} AS pageRank, "
        f"int(1 + {_below('id', seed, 3, 99)}) AS avgDuration FROM range({part}, {rows}, {parts}, {files})"
    )


def uservisits_sql(rows: int, *, pages: int, seed: int = 0, part: int = 0, parts: int = 1, files: int = 2) -> str:
    """A SELECT of visits `part`, `part + parts`, … of `rows` visits to the `pages` pages of `rankings_sql`."""
    seed += 1_000_003  # the same number of row draws other values here than for a page
    bits = _bits("id", seed, 1)
    octets = [f"(({bits}) >> {shift} & 65535) * {most} >> 16" for shift, most in ((0, 254), (16, 255), (32, 255))]
    address = ", ".join(["1 + (" + octets[0] + ")", *octets[1:], f"1 + {_below('id', seed, 2, 254)}"])
    agents = ", ".join(f"'{agent}'" for agent in _AGENTS)
    place = f"1 + int(pow({_unit('id', seed, 6)}, 1.5) * {len(_AGENTS) * 0.999999})"
    name = f"initcap(left({_letters('id', seed)}, int(3 + {_below('id', seed, 8, 20)})))"
    rare = f"concat({name}, '/', {_below('id', seed, 9, 10)}, '.0')"
    days = (LAST_DAY - FIRST_DAY).days + 1
    word = _below("id", seed, 7, _WORDS)
    length = f"int(4 + {_below(word, seed, 12, 6)} + {_below(word, seed, 13, 7)})"
    columns = {
        "sourceIP": f"concat_ws('.', {address})",
        "destURL": _url(_below("id", seed, 3, pages), seed - 1_000_003),
        "visitDate": f"date_add(DATE'{FIRST_DAY}', int({_below('id', seed, 4, days)}))",
        "adRevenue": f"double({_below('id', seed, 5, 2**20)}) / {2**20}D",
        "userAgent": f"if({_below('id', seed, 10, 20)} = 0, {rare}, element_at(array({agents}), {place}))",
        "countryCode": "left(language, 3)",
        "languageCode": "language",
        "searchWord": f"left({_letters(word, seed)}, {length})",
        "duration": f"int(1 + {_below('id', seed, 14, 10)})",
    }
    listed = ", ".join(f"'{language}'" for language in _LANGUAGES)
    language = f"element_at(array({listed}), 1 + int({_below('id', seed, 11, len(_LANGUAGES))}))"
    return (
        f"SELECT {', '.join(f'{text} AS {name}' for name, text in columns.items())} "
        f"FROM (SELECT id, {language} AS language FROM range({part}, {rows}, {parts}, {files}))"
    )


def drawn_queries(
    ranks: Sequence[tuple[int, int]], days: Sequence[tuple[date, int]], *, seed: int = 0
) -> dict[str, str]:
    """Q4 to Q9 with parameters drawn at random from the data: what `RANKS_SQL` and `DAYS_SQL` give, as pairs."""
    draw = random.Random(seed)
    fewest, most = FEW_HUNDRED
    usual = sorted(value for value, rows in ranks if fewest <= rows <= most) or sorted(value for value, _ in ranks)
    there = {day for day, _ in days}
    pairs = sorted(day for day in there if day + timedelta(1) in there) or sorted(there)

    def at(name: str) -> dict[str, object]:
        if name == "Q4":
            return {"x": draw.choice(usual)}
        if name == "Q6":
            low = draw.choice(usual)
            return {"x": low, "y": low + 5}
        first = draw.choice(pairs)
        return {"x": first, "y": first + timedelta(1)}

    return {name: QUERIES[name].format(**at(name)) for name in SELECTIVE}


def _bits(number: str, seed: int, draw: int) -> str:
    """64 random bits for a row's number: every draw has others."""
    return f"xxhash64({number}, {seed * 64 + draw}L)"


def _below(number: str, seed: int, draw: int, limit: int) -> str:
    return f"pmod({_bits(number, seed, draw)}, {limit}L)"


def _unit(number: str, seed: int, draw: int) -> str:
    """A number above 0 and at most 1."""
    return f"((shiftrightunsigned({_bits(number, seed, draw)}, 11) + 1) / {2**53}D)"


def _url(page: str, seed: int) -> str:
    """Both pieces stay below 76 characters, where some settings break base64 into lines."""
    text = f"concat('{seed}/', {page})"
    pieces = f"base64(unhex(sha2({text}, 384))), base64(unhex(sha2({text}, 224)))"
    return f"lower(left(concat({pieces}), int(10 + {_below(page, seed, 0, 91)})))"


def _letters(number: str, seed: int) -> str:
    """32 characters."""
    return f"md5(concat('{seed}:', {number}))"
