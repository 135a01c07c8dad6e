"""Time and acceptance are counted: plain and drafted decoding of the same prompts, side by side."""

from draftune.bench.config import BenchConfig
from draftune.bench.record import Report

__all__ = ["BenchConfig", "Report"]
