"""dac_rocm: the Descript Audio Codec family, inference only."""
