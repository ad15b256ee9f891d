"""numba functions on flat arrays: arrays in, arrays out, no classes and no checking.

Callers (the rooms above) check, allocate and keep; a kernel only loops. A name says what the loop does.
"""
