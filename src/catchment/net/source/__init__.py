"""Where the events of a site come from: files, files that grow, sockets, the standard input.

A file can be read again from any position, so a site that crashes and comes back loses nothing and doubles nothing. A
socket and the standard input cannot: what was read and not yet durable when a site crashes is lost, and the position
only counts what was accepted.
"""

from __future__ import annotations

from catchment.net.source.base import BadLine, BadLines, Batch, Source
from catchment.net.source.decoders import Csv, Fields, JsonLines, WebLog
from catchment.net.source.feeds import FileFeed, SocketFeed, StreamFeed
from catchment.net.source.reader import Reader

__all__ = [
    "BadLine",
    "BadLines",
    "Batch",
    "Csv",
    "Fields",
    "FileFeed",
    "JsonLines",
    "Reader",
    "SocketFeed",
    "Source",
    "StreamFeed",
    "WebLog",
]
