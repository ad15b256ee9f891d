"""Map-reduce over clouds, to run and to copy: word count, k-means, PageRank.

`catchment clouds up` starts two clouds here; `python -m examples.word_count` asks those, or the ones of `clouds.toml`.
"""
