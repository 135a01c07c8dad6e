"""draftune: fine-tune a language model and a tiny drafter for it, then decode faster with not one token changed."""

__version__ = "0.1.0.dev0"
