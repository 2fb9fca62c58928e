"""The readable reference network: modules with plain convolutions, named as Descript names them.

It is the slow twin of the lowered steps that the engine runs.
"""
