"""Load, balanced and shed by what sketches learn: partitioner (BPART, DKG), scheduler (OSG), shedder (LAS).

Pure machines on arrays: no clock, no sleep, no Spark. Names are imported from their files.
"""
