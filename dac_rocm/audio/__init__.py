"""Samples in and out of files and streams, resampling and loudness: block by block, in flat memory.

Arrays here are float32 numpy, planar, [C, n]. This room must not know codes, networks or models.
"""
