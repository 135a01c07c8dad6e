"""The front desk: one thin file a verb. Nothing heavy is imported before a verb runs."""

from draftune.cli.root import app, main

__all__ = ["app", "main"]
