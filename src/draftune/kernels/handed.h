// What Python hands over, field by field as in weights.py, runner.py and recurrent.py.

#pragma once

#include <cstdint>

struct Layer {
  const float* norm_before;   // [D]
  const void* qkv;            // packed [(H + 2 G) E, D]
  const float* qkv_bias;      // [(H + 2 G) E] or null
  const float* query_norm;    // [E] or null
  const float* key_norm;      // [E] or null
  const void* out;            // packed [D, H E]
  const float* norm_between;  // [D]
  const void* gate_up;        // packed [2 I, D], 16 rows of gate and 16 of up in turn
  const void* down;           // packed [D, I]
  int64_t window;             // tokens that attention looks back, its own included; 0 = all
};

struct Model {
  int64_t num_layers, width, heads, groups, head_width, rotary, inner, vocabulary;
  double epsilon, scale;
  const Layer* layers;
  const void* embedding;   // [V, D], as stored
  const float* norm;       // [D]
  const void* head;        // packed [V, D]
  const float* head_bias;  // [V] or null
};

struct Block {
  int64_t num_rows, num_tokens;  // B, M
  int64_t capacity, view;        // slots of a row, and how many of them are in use with this block
  const int64_t* tokens;         // [B, M]
  const int64_t* slots;          // [B, M]
  const int64_t* positions;      // [B, M]
  const uint8_t* ancestors;      // [M, M] by query and key, or null: tokens follow one another
  const int64_t* depths;         // [M] or null
  const float* cosine;           // [positions, rotary / 2]
  const float* sine;
  void* keys;  // [layers, B, G, capacity, E]
  void* values;
  int64_t num_taps;
  const int64_t* taps;  // layer numbers, -1 = final norm
  void* heard;          // [B, M, taps, D]
  void* final;          // [B, M, D]
  int64_t num_threads;
};

// A recurrent cell over the drafted tokens and an MLP head on it and the context.
struct Recurrent {
  int64_t table_is_bfloat16, width, state, gates, inner, columns;  // gates: 1 RNN, 3 GRU, 4 LSTM
  double epsilon;
  const void* table;   // [V, width]
  const void* from_x;  // packed [gates state, width], as the rest of the matrices in bfloat16
  const float* from_x_bias;
  const void* from_h;  // packed [gates state, state]
  const float* from_h_bias;
  const void* of_summary;  // packed [inner, state]
  const void* down;        // packed [width, inner]
  const float* down_bias;
  const void* out;  // packed [columns, width]
  const float* out_bias;
};
