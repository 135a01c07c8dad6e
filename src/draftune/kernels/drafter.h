// The small products and cells of drafters.

#pragma once

#include <vector>

#include "handed.h"
#include "products.h"

namespace {

// act(x W + bias + add) in fp32 around products in bfloat16; `columns` need not fill whole blocks.
void linear(const void* packed, const float* bias, const float* x, int64_t rows, int64_t depth, int64_t columns,
            const float* add, bool silu, float* out, int64_t num_threads) {
  thread_local std::vector<bf16> arena;
  arena.resize(size_t(rows * depth));
  bf16* narrowed = arena.data();
  for (int64_t i = 0; i < rows * depth; i += LANES) store(narrowed + i, load(x + i));
  const auto finish = [=](float* y, const float* bias_of, const float* added, int64_t count) {
    float padded[LANES] = {};
    if (added) std::copy(added, added + count, padded);
    f32x16 whole = load(y) + load(padded);
    if (bias_of) whole += load(bias_of);
    if (silu) whole = swish(whole);
    store(y, whole);
  };
#pragma omp parallel num_threads(int(num_threads))
  product(packed, static_cast<const bf16*>(narrowed), rows, depth, columns,
          [&](int64_t row, int64_t part, const Pair& sums) {
            for (int64_t side = 0; side < 2; ++side) {
              const int64_t first = part * BLOCK + side * LANES, count = std::min(LANES, columns - first);
              if (count <= 0) return;
              float y[LANES];
              store(y, side ? sums.right : sums.left);
              finish(y, bias ? bias + first : nullptr, add ? add + row * columns + first : nullptr, count);
              std::copy(y, y + count, out + row * columns + first);
            }
          });
}

// Rows of a table for some tokens, each with root-mean-square 1.
template <class T>
void embed(const T* table, const int64_t* tokens, int64_t rows, int64_t width, float epsilon, float* out) {
  for (int64_t row = 0; row < rows; ++row)
    normalize(table + tokens[row] * width, nullptr, width, epsilon, out + row * width);
}

// The first of the largest numbers of each row.
void largest(const float* x, int64_t rows, int64_t width, int64_t* places) {
  for (int64_t row = 0; row < rows; ++row, x += width) {
    f32x16 best = all(-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
      const f32x16 part = load(x + i);
      best = part > best ? part : best;
    }
    float top = -INFINITY;
    for (int lane = 0; lane < LANES; ++lane) top = std::max(top, best[lane]);
    for (; i < width; ++i) top = std::max(top, x[i]);
    places[row] = std::find(x, x + width, top) - x;
  }
}

// The cells of torch.nn.RNN, GRU and LSTM from what the two products gave, gates in torch's order.
void rnn(int64_t rows, int64_t width, const float* from_x, const float* from_h, float* hidden) {
  for (int64_t i = 0; i < rows * width; i += LANES) store(hidden + i, hyperbolic(load(from_x + i) + load(from_h + i)));
}

void gru(int64_t rows, int64_t width, const float* from_x, const float* from_h, const float* before, float* hidden) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; i += LANES) {
      const float *x = from_x + row * 3 * width + i, *h = from_h + row * 3 * width + i;
      const f32x16 reset = sigmoid(load(x) + load(h)), keep = sigmoid(load(x + width) + load(h + width));
      const f32x16 fresh = hyperbolic(load(x + 2 * width) + reset * load(h + 2 * width));
      store(hidden + row * width + i, fresh + keep * (load(before + row * width + i) - fresh));
    }
}

void lstm(int64_t rows, int64_t width, const float* from_x, const float* from_h, const float* before, float* memory,
          float* hidden) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; i += LANES) {
      const float *x = from_x + row * 4 * width + i, *h = from_h + row * 4 * width + i;
      const f32x16 write = sigmoid(load(x) + load(h)), keep = sigmoid(load(x + width) + load(h + width));
      const f32x16 fresh = hyperbolic(load(x + 2 * width) + load(h + 2 * width));
      const f32x16 open = sigmoid(load(x + 3 * width) + load(h + 3 * width));
      const f32x16 kept = keep * load(before + row * width + i) + write * fresh;
      store(memory + row * width + i, kept);
      store(hidden + row * width + i, open * hyperbolic(kept));
    }
}

// One draft token: embedding, cell, head. `hidden` and `memory` [rows, state] are read and replaced; `part` is what the
// head's first product makes of the context.
void recurrent_step(const Recurrent& net, int64_t rows, const int64_t* tokens, const float* context, const float* part,
                    float* hidden, float* memory, float* logits, int64_t num_threads) {
  const int64_t width = net.width, state = net.state, gated = net.gates * state;
  thread_local std::vector<char> arena;
  arena.resize(size_t(rows * (4 * width + 8 * gated + 4 * state + 2 * (2 * width + state + net.inner)) + 10 * 64));
  char* free = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64) % 64;
  float* embedded = carve<float>(free, rows * width);
  float* from_x = carve<float>(free, rows * gated);
  float* from_h = carve<float>(free, rows * gated);
  float* before = carve<float>(free, rows * state);
  bf16* x = carve<bf16>(free, rows * width);
  bf16* h = carve<bf16>(free, rows * state);
  bf16* inner = carve<bf16>(free, rows * net.inner);
  bf16* mixed = carve<bf16>(free, rows * width);

  const auto into = [](float* to, const float* bias, int64_t columns) {
    return [=](int64_t row, int64_t block, const Pair& sums) {
      float* place = to + row * columns + block * BLOCK;
      store(place, sums.left + load(bias + block * BLOCK));
      if (block * BLOCK + LANES < columns) store(place + LANES, sums.right + load(bias + block * BLOCK + LANES));
    };
  };
  const auto narrowed = [](const float* from, int64_t count, bf16* to) {
    for (int64_t i = 0; i < count; i += LANES) store(to + i, load(from + i));
  };

#pragma omp parallel num_threads(int(num_threads))
  {
#pragma omp single
    {
      if (net.table_is_bfloat16)
        embed(static_cast<const bf16*>(net.table), tokens, rows, width, float(net.epsilon), embedded);
      else
        embed(static_cast<const float*>(net.table), tokens, rows, width, float(net.epsilon), embedded);
      narrowed(embedded, rows * width, x);
      narrowed(hidden, rows * state, h);
    }
    product(net.from_x, static_cast<const bf16*>(x), rows, width, gated, into(from_x, net.from_x_bias, gated));
    product(net.from_h, static_cast<const bf16*>(h), rows, state, gated, into(from_h, net.from_h_bias, gated));
#pragma omp barrier
#pragma omp single
    {
      std::copy(net.gates == 4 ? memory : hidden, (net.gates == 4 ? memory : hidden) + rows * state, before);
      if (net.gates == 1) rnn(rows, state, from_x, from_h, hidden);
      if (net.gates == 3) gru(rows, state, from_x, from_h, before, hidden);
      if (net.gates == 4) lstm(rows, state, from_x, from_h, before, memory, hidden);
      narrowed(hidden, rows * state, h);
    }
    product(net.of_summary, static_cast<const bf16*>(h), rows, state, net.inner,
            [=](int64_t row, int64_t block, const Pair& sums) {
              for (int64_t side = 0; side < 2; ++side) {
                const int64_t first = block * BLOCK + side * LANES;
                if (first >= net.inner) return;
                const f32x16 open = (side ? sums.right : sums.left) + load(part + row * net.inner + first);
                store(inner + row * net.inner + first, swish(open));
              }
            });
#pragma omp barrier
    product(net.down, static_cast<const bf16*>(inner), rows, net.inner, width,
            [=](int64_t row, int64_t block, const Pair& sums) {
              for (int64_t side = 0; side < 2; ++side) {
                const int64_t first = block * BLOCK + side * LANES;
                if (first >= width) return;
                const f32x16 moved = (side ? sums.right : sums.left) + load(net.down_bias + first);
                store(mixed + row * width + first, moved + load(context + row * width + first));
              }
            });
#pragma omp barrier
    product(net.out, static_cast<const bf16*>(mixed), rows, width, net.columns,
            [=](int64_t row, int64_t block, const Pair& sums) {
              float y[BLOCK];
              store(y, sums.left + load(net.out_bias + block * BLOCK));
              store(y + LANES, sums.right + load(net.out_bias + block * BLOCK + LANES));
              const int64_t first = block * BLOCK;
              std::copy(y, y + std::min(BLOCK, net.columns - first), logits + row * net.columns + first);
            });
  }
}

}  // namespace
