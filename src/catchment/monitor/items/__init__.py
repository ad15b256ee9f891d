"""Items above a threshold: which items were seen at least T times over all sites, at all times (see `watch.py`)."""

from catchment.monitor.items.claim import ItemCount, ItemsClaim
from catchment.monitor.items.watch import Items

__all__ = ["ItemCount", "Items", "ItemsClaim"]
