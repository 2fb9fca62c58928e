"""See it and hear it: pictures with matplotlib, and a page that needs nothing but a browser.

This room must not measure by itself: its numbers are those of `roundtrip` and `evaluate`.
"""

from dac_rocm.report.page import write_report
from dac_rocm.report.plot import plot_file

__all__ = ["plot_file", "write_report"]
