"""Chooses device, type, tile and kernels for this machine."""
