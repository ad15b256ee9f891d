"""`python -m tests.golden.monitors` writes the golden files of monitors that are missing; it never rewrites one."""

from __future__ import annotations

from tests.golden import fingerprints, frames, peers, states, zones

if __name__ == "__main__":
    for part in (states, fingerprints, frames, peers, zones):
        part.main()
