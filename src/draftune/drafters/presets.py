"""Named drafters that are nothing but a choice of parts."""

from __future__ import annotations

from draftune.drafters.compose import ComposedConfig, Part


def medusa() -> ComposedConfig:
    """Independent guesses from h_t (Cai et al. 2024)."""
    return ComposedConfig(context=Part(kind="residual"), recent=Part(kind="nothing"), head=Part(kind="target"))


def medusa_markov() -> ComposedConfig:
    """Medusa whose logits are moved by the token before: a bigram bias of low rank."""
    return ComposedConfig(context=Part(kind="residual"), recent=Part(kind="newest"), head=Part(kind="markov"))


def hydra() -> ComposedConfig:
    """An MLP for each offset over h_t and all tokens drafted so far (Ankner et al. 2024)."""
    return ComposedConfig(context=Part(kind="hidden"), recent=Part(kind="concat"), head=Part(kind="target"))


def redrafter() -> ComposedConfig:
    """An RNN over the recent tokens, residual blocks on it and h_t (Cheng et al. 2024)."""
    recent = Part(kind="recurrent", settings={"cell": "rnn"})
    return ComposedConfig(context=Part(kind="hidden"), recent=recent, head=Part(kind="residual"))


def semiar_rnn() -> ComposedConfig:
    """h_t for the distant tokens, an RNN for the recent ones."""
    return _semiar("rnn")


def semiar_gru() -> ComposedConfig:
    """h_t for the distant tokens, a GRU for the recent ones."""
    return _semiar("gru")


def semiar_lstm() -> ComposedConfig:
    """h_t for the distant tokens, an LSTM for the recent ones."""
    return _semiar("lstm")


def semiar_state() -> ComposedConfig:
    """One gated vector that starts as h_t: the form that stock engines run without a patch."""
    return ComposedConfig(context=Part(kind="hidden"), recent=Part(kind="state"), head=Part(kind="target"))


def semiar_fixed() -> ComposedConfig:
    """h_t for the distant tokens, one layer with fixed attention weights for the recent ones."""
    return ComposedConfig(context=Part(kind="hidden"), recent=Part(kind="fixed"), head=Part(kind="mlp"))


def semiar_attention() -> ComposedConfig:
    """h_t for the distant tokens, one layer of causal attention for the recent ones."""
    return ComposedConfig(context=Part(kind="hidden"), recent=Part(kind="attention"), head=Part(kind="mlp"))


def semiar_fused() -> ComposedConfig:
    """Three layers of the target for the distant tokens, a GRU for the recent ones."""
    recent = Part(kind="recurrent", settings={"cell": "gru"})
    return ComposedConfig(context=Part(kind="fused"), recent=recent, head=Part(kind="mlp"))


def _semiar(cell: str) -> ComposedConfig:
    recent = Part(kind="recurrent", settings={"cell": cell})
    return ComposedConfig(context=Part(kind="hidden"), recent=recent, head=Part(kind="mlp"))
