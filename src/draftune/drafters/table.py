"""The tables of names: one line adds a drafter or a part. Other packages add lines as entry points."""

from __future__ import annotations

from draftune.registry import Entry, Registry

DRAFTERS = Registry(
    "drafter",
    group="draftune.drafters",
    builtin={
        "medusa": Entry("draftune.drafters.presets:medusa", "one residual block per offset on h_t, no recent tokens"),
        "semiar-rnn": Entry("draftune.drafters.presets:semiar_rnn", "h_t and an RNN over the recent tokens"),
        "semiar-lstm": Entry("draftune.drafters.presets:semiar_lstm", "h_t and an LSTM over the recent tokens"),
        "semiar-gru": Entry("draftune.drafters.presets:semiar_gru", "h_t and a GRU over the recent tokens"),
        "semiar-state": Entry(
            "draftune.drafters.presets:semiar_state", "a gated state that starts as h_t, read by the target's LM head"
        ),
        "semiar-fixed": Entry(
            "draftune.drafters.presets:semiar_fixed", "h_t and one layer of fixed attention over the recent tokens"
        ),
        "lookup": Entry("draftune.drafters.lookup:LookupConfig", "copies what followed the longest suffix seen before"),
    },
)

CONTEXTS = Registry(
    "context",
    group="draftune.contexts",
    builtin={
        "hidden": Entry("draftune.drafters.context:Hidden", "h_t as it is"),
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
    },
)

HEADS = Registry(
    "head",
    group="draftune.heads",
    builtin={
        "target": Entry("draftune.drafters.head:TargetHead", "the target's LM head, not trained"),
        "mlp": Entry("draftune.drafters.head:MlpHead", "an MLP on context and summary, own output matrix"),
    },
)
