"""The tables of names: one line adds a drafter or a part. Other packages add lines as entry points."""

from __future__ import annotations

from draftune.registry import Entry, Registry

DRAFTERS = Registry(
    "drafter",
    group="draftune.drafters",
    builtin={
        "medusa": Entry("draftune.drafters.presets:medusa", "one residual block per offset on h_t, no recent tokens"),
        "medusa-markov": Entry(
            "draftune.drafters.presets:medusa_markov", "medusa, its logits moved by the token before"
        ),
        "hydra": Entry("draftune.drafters.presets:hydra", "an MLP for each offset on h_t and all recent tokens"),
        "redrafter": Entry("draftune.drafters.presets:redrafter", "an RNN, and residual blocks on it and h_t"),
        "semiar-rnn": Entry("draftune.drafters.presets:semiar_rnn", "h_t and an RNN over the recent tokens"),
        "semiar-lstm": Entry("draftune.drafters.presets:semiar_lstm", "h_t and an LSTM over the recent tokens"),
        "semiar-gru": Entry("draftune.drafters.presets:semiar_gru", "h_t and a GRU over the recent tokens"),
        "semiar-state": Entry(
            "draftune.drafters.presets:semiar_state", "a gated state that starts as h_t, read by the target's LM head"
        ),
        "semiar-fixed": Entry(
            "draftune.drafters.presets:semiar_fixed", "h_t and one layer of fixed attention over the recent tokens"
        ),
        "semiar-attention": Entry(
            "draftune.drafters.presets:semiar_attention", "h_t and one layer of attention over the recent tokens"
        ),
        "semiar-fused": Entry(
            "draftune.drafters.presets:semiar_fused", "three layers of the target and a GRU over the recent tokens"
        ),
        "copying": Entry(
            "draftune.drafters.copying:CopyingConfig", "semiar-gru moved towards what the text before would repeat"
        ),
        "lookup": Entry("draftune.drafters.lookup:LookupConfig", "copies what followed the longest suffix seen before"),
    },
)

CONTEXTS = Registry(
    "context",
    group="draftune.contexts",
    builtin={
        "hidden": Entry("draftune.drafters.context:Hidden", "h_t as it is"),
        "fused": Entry("draftune.drafters.context:Fused", "h_t moved by what middle layers knew"),
        "residual": Entry("draftune.drafters.context:Residual", "h_t through one residual block per offset"),
    },
)

RECENTS = Registry(
    "recent-token model",
    group="draftune.recents",
    builtin={
        "nothing": Entry("draftune.drafters.recent:Nothing", "recent tokens are ignored"),
        "recurrent": Entry("draftune.drafters.recent:Recurrent", "RNN, GRU or LSTM from zero"),
        "state": Entry("draftune.drafters.recent:State", "a gated state that starts as h_t"),
        "fixed": Entry("draftune.drafters.recent:Fixed", "one layer of attention with weights fixed by offset"),
        "attention": Entry("draftune.drafters.recent:Attention", "one layer of causal attention"),
        "concat": Entry("draftune.drafters.recent:Concat", "all recent tokens side by side, an MLP for each offset"),
        "newest": Entry("draftune.drafters.recent:Newest", "the newest token alone, by a projection of low rank"),
    },
)

HEADS = Registry(
    "head",
    group="draftune.heads",
    builtin={
        "markov": Entry("draftune.drafters.head:MarkovHead", "the target's LM head, moved by recent tokens"),
        "residual": Entry("draftune.drafters.head:ResidualHead", "residual blocks on context and summary"),
        "target": Entry("draftune.drafters.head:TargetHead", "the target's LM head, not trained"),
        "mlp": Entry("draftune.drafters.head:MlpHead", "an MLP on context and summary, own output matrix"),
    },
)
