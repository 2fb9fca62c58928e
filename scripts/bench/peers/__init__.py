"""What `scripts/bench/codec.py` is made of: the same weights and input for every peer, and workers.

`prepare` and `export` write files; `worker` runs one package in its own venv with the `adapters`;
`session` talks to workers; `rate`, `extras` and `report` measure and show what else there is.
"""
