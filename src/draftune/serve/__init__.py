"""Strangers ask: HTTP, batching, routing, online adaptation, a page."""
