"""Names and strings as Spark's SQL writes them."""

from __future__ import annotations

__all__ = ["name_text", "string_text"]


def name_text(*parts: str) -> str:
    """A name, qualified if there are several parts.

    >>> name_text("paris", "a`b")
    '`paris`.`a``b`'
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def string_text(text: str) -> str:
    r"""A literal.

    >>> print(string_text("it's 5\\n"))
    'it\'s 5\\n'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
