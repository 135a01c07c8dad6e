"""A row becomes tokens and a mask of what to learn: tasks, chat templates, metrics, audits."""

from draftune.data.open import open_task
from draftune.data.task import Task

__all__ = ["Task", "open_task"]
