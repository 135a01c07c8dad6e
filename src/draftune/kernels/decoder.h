// A Llama-shaped decoder that reads a block of tokens. Sums, residuals, norms and attention are in fp32.

#pragma once

#include <vector>

#include "attention.h"
#include "handed.h"

namespace {

void rotate(float* x, const float* cosine, const float* sine, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
}

// One block on its way through the layers. All methods but the first are called by every thread of a team at once.
template <class T>
struct Reading {
  const Model& model;
  const Block& block;
  const int64_t rows = block.num_rows * block.num_tokens, width = model.width, head = model.head_width;
  const int64_t mixed_width = model.heads * head, all_heads = model.heads + 2 * model.groups;
  const int64_t shared = model.heads / model.groups;  // heads of a group
  const float epsilon = float(model.epsilon);
  float *residual = nullptr, *qkv = nullptr;                // [rows, D], [rows, (H + 2 G) E]
  T *normed = nullptr, *mixed = nullptr, *inner = nullptr;  // [rows, D], [rows, H E], [rows, I]

  Reading(const Model& model, const Block& block, std::vector<char>& arena) : model(model), block(block) {
    const int64_t values = width + mixed_width + model.inner;
    arena.resize(size_t(rows * (4 * width + 4 * all_heads * head + int64_t(sizeof(T)) * values) + 6 * 64));
    char* place = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64) % 64;
    residual = carve<float>(place, rows * width);
    qkv = carve<float>(place, rows * all_heads * head);
    normed = carve<T>(place, rows * width);
    mixed = carve<T>(place, rows * mixed_width);
    inner = carve<T>(place, rows * model.inner);
  }

  void run() const {
    const Share mine(rows);
    for (int64_t row = mine.first; row < mine.last; ++row) {
      const T* from = static_cast<const T*>(model.embedding) + block.tokens[row] * width;
      for (int64_t i = 0; i < width; i += LANES) store(residual + row * width + i, load(from + i));
    }
    for (int64_t number = 0; number < model.num_layers; ++number) {
      attention(number, model.layers[number]);
      feed_forward(model.layers[number]);
      listen(number);
    }
    for (int64_t row = mine.first; row < mine.last; ++row)
      normalize(residual + row * width, model.norm, width, epsilon, static_cast<T*>(block.final) + row * width);
    listen(-1);
  }

 private:
  void attention(int64_t number, const Layer& layer) const {
    const int64_t memory = number * block.num_rows * model.groups * block.capacity * head;
    T *keys = static_cast<T*>(block.keys) + memory, *values = static_cast<T*>(block.values) + memory;
    norm_rows(layer.norm_before);
#pragma omp barrier
    product(layer.qkv, normed, rows, width, all_heads * head, [&](int64_t row, int64_t part, const Pair& sums) {
      float* to = qkv + row * all_heads * head + part * BLOCK;
      const float* bias = layer.qkv_bias ? layer.qkv_bias + part * BLOCK : nullptr;
      store(to, bias ? sums.left + load(bias) : sums.left);
      if (part * BLOCK + LANES < all_heads * head)
        store(to + LANES, bias ? sums.right + load(bias + LANES) : sums.right);
    });
#pragma omp barrier
    remember(layer, keys, values);
#pragma omp barrier
    mix(layer, keys, values);
#pragma omp barrier
    add_product(layer.out, mixed, mixed_width);
#pragma omp barrier
  }

  void feed_forward(const Layer& layer) const {
    norm_rows(layer.norm_between);
#pragma omp barrier
    product(layer.gate_up, normed, rows, width, 2 * model.inner, [&](int64_t row, int64_t part, const Pair& sums) {
      store(inner + row * model.inner + part * LANES, swish(sums.left) * sums.right);
    });
#pragma omp barrier
    add_product(layer.down, inner, model.inner);
#pragma omp barrier
  }

  // Queries and keys are normalized where the family does so, and turned; keys and values go to their slots.
  void remember(const Layer& layer, T* keys, T* values) const {
    const Share units(rows * all_heads);
    const int64_t half = model.rotary / 2;
    for (int64_t unit = units.first; unit < units.last; ++unit) {
      const int64_t row = unit / all_heads, which = unit % all_heads, group = (which - model.heads) % model.groups;
      float* x = qkv + unit * head;
      const bool is_query = which < model.heads, is_key = !is_query && which < model.heads + model.groups;
      if (is_query && layer.query_norm) normalize(x, layer.query_norm, head, epsilon, x);
      if (is_key && layer.key_norm) normalize(x, layer.key_norm, head, epsilon, x);
      const int64_t turn = block.positions[row] * half;
      if (is_query || is_key) rotate(x, block.cosine + turn, block.sine + turn, half);
      if (is_query) continue;
      T* to = (is_key ? keys : values) + (row_of_memory(row, group) + block.slots[row]) * head;
      for (int64_t e = 0; e < head; e += LANES) store(to + e, load(x + e));
    }
  }

  void mix(const Layer& layer, const T* keys, const T* values) const {
    std::vector<int32_t> seen;
    std::vector<float> scores(size_t(AT_ONCE * (block.view + LANES)));
    int64_t looked = -1;
    // In turns: later tokens of a prompt see more slots than earlier ones.
    for (int64_t pair = omp_get_thread_num(); pair < rows * model.groups; pair += omp_get_num_threads()) {
      const int64_t row = pair / model.groups, group = pair % model.groups;
      if (row != looked) look(block, row / block.num_tokens, row % block.num_tokens, layer.window, seen);
      looked = row;
      const int64_t start = row_of_memory(row, group) * head;
      const float* queries = qkv + (row * all_heads + group * shared) * head;
      T* out = mixed + row * mixed_width + group * shared * head;
      attend_group(shared, queries, keys + start, values + start, seen, head, float(model.scale), scores.data(), out);
    }
  }

  void add_product(const void* packed, const T* x, int64_t depth) const {
    product(packed, x, rows, depth, width, [&](int64_t row, int64_t part, const Pair& sums) {
      float* to = residual + row * width + part * BLOCK;
      store(to, load(to) + sums.left);
      if (part * BLOCK + LANES < width) store(to + LANES, load(to + LANES) + sums.right);
    });
  }

  void norm_rows(const float* weight) const {
    const Share mine(rows);
    for (int64_t row = mine.first; row < mine.last; ++row)
      normalize(residual + row * width, weight, width, epsilon, normed + row * width);
  }

  // Hand out the residual stream after a layer that is tapped; -1 is the final norm.
  void listen(int64_t layer) const {
    const Share mine(rows);
    for (int64_t tap = 0; tap < block.num_taps; ++tap) {
      if (block.taps[tap] != layer) continue;
      for (int64_t row = mine.first; row < mine.last; ++row) {
        T* to = static_cast<T*>(block.heard) + (row * block.num_taps + tap) * width;
        const T* last = static_cast<const T*>(block.final) + row * width;
        for (int64_t i = 0; i < width; i += LANES)
          store(to + i, layer < 0 ? load(last + i) : load(residual + row * width + i));
      }
    }
  }

  int64_t row_of_memory(int64_t row, int64_t group) const {
    return (row / block.num_tokens * model.groups + group) * block.capacity;
  }
};

template <class T>
void read(const Model& model, const Block& block) {
  thread_local std::vector<char> arena;
  const Reading<T> reading(model, block, arena);
#pragma omp parallel num_threads(int(block.num_threads))
  reading.run();
}

template <class T>
void speak(const Model& model, const void* hidden, int64_t rows, float* logits, int64_t num_threads) {
#pragma omp parallel num_threads(int(num_threads))
  product(model.head, static_cast<const T*>(hidden), rows, model.width, model.vocabulary,
          [&](int64_t row, int64_t part, const Pair& sums) {
            float y[BLOCK];
            store(y, sums.left);
            store(y + LANES, sums.right);
            const int64_t first = part * BLOCK, count = std::min(BLOCK, model.vocabulary - first);
            float* to = logits + row * model.vocabulary + first;
            for (int64_t i = 0; i < count; ++i) to[i] = model.head_bias ? y[i] + model.head_bias[first + i] : y[i];
          });
}

}  // namespace
