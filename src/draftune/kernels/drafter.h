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
  constexpr int64_t PIECE = 64 * LANES;  // the place is looked for in the piece that holds the largest alone
  for (int64_t row = 0; row < rows; ++row, x += width) {
    float top = -INFINITY;
    int64_t piece = 0;
    for (int64_t start = 0; start < width; start += PIECE) {
      const int64_t end = std::min(start + PIECE, width);
      f32x16 best = all(-INFINITY), other = best;
      int64_t i = start;
      for (; i + 2 * LANES <= end; i += 2 * LANES) {
        const f32x16 part = load(x + i), next = load(x + i + LANES);
        best = part > best ? part : best;
        other = next > other ? next : other;
      }
      best = other > best ? other : best;
      float found = -INFINITY;
      for (int lane = 0; lane < LANES; ++lane) found = std::max(found, best[lane]);
      for (; i < end; ++i) found = std::max(found, x[i]);
      if (found > top) top = found, piece = start;
    }
    places[row] = std::find(x + piece, x + width, top) - x;
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

// Calls take(row, first column, sums) for each half of a block that has columns.
template <class Take>
auto halves(int64_t columns, Take take) {
  return [=](int64_t row, int64_t block, const Pair& sums) {
    const int64_t first = block * BLOCK;
    take(row, first, sums.left);
    if (first + LANES < columns) take(row, first + LANES, sums.right);
  };
}

auto biased(float* to, const float* bias, int64_t columns) {
  return halves(columns, [=](int64_t row, int64_t first, f32x16 sums) {
    store(to + row * columns + first, sums + load(bias + first));
  });
}

// A recurrent cell over drafted tokens and an MLP head, at work on some rows. `hidden` and `memory` [rows, state] are
// read and replaced; `part` is what the head's first product makes of the context. All methods but the first are called
// by every thread of a team at once.
struct Drafting {
  const Recurrent& net;
  const int64_t rows;
  const float *context, *part;  // [rows, width], [rows, inner]
  float *hidden, *memory;
  const int64_t width = net.width, state = net.state, gated = net.gates * state;
  float *embedded = nullptr, *from_x = nullptr, *from_h = nullptr, *before = nullptr, *said = nullptr;
  bf16 *x = nullptr, *h = nullptr, *inner = nullptr, *mixed = nullptr;
  int64_t *newest = nullptr, *places = nullptr;

  Drafting(const Recurrent& net, int64_t rows, const float* context, const float* part, float* hidden, float* memory,
           std::vector<char>& arena)
      : net(net), rows(rows), context(context), part(part), hidden(hidden), memory(memory) {
    const int64_t wide = width + 2 * gated + state + net.columns, narrow = 2 * width + state + net.inner;
    arena.resize(size_t(rows * (4 * wide + 2 * narrow + 2 * 8) + 12 * 64));
    char* place = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64) % 64;
    embedded = carve<float>(place, rows * width);
    from_x = carve<float>(place, rows * gated);
    from_h = carve<float>(place, rows * gated);
    before = carve<float>(place, rows * state);
    said = carve<float>(place, rows * net.columns);
    x = carve<bf16>(place, rows * width);
    h = carve<bf16>(place, rows * state);
    inner = carve<bf16>(place, rows * net.inner);
    mixed = carve<bf16>(place, rows * width);
    newest = carve<int64_t>(place, rows);
    places = carve<int64_t>(place, rows);
  }

  // The logits [rows, columns] after one more token a row.
  void step(const int64_t* tokens, float* logits) const {
#pragma omp single
    read(tokens);
    product(net.from_x, static_cast<const bf16*>(x), rows, width, gated, biased(from_x, net.from_x_bias, gated));
    product(net.from_h, static_cast<const bf16*>(h), rows, state, gated, biased(from_h, net.from_h_bias, gated));
#pragma omp barrier
#pragma omp single
    turn();
    head(logits);
#pragma omp barrier
  }

  // The most likely tokens [rows, count] one after another; `ids` names the columns, null where they are the tokens.
  void draft(const int64_t* anchors, int64_t count, const int64_t* ids, int64_t* tokens) const {
#pragma omp single
    std::copy(anchors, anchors + rows, newest);
    for (int64_t offset = 0; offset < count; ++offset) {
      step(newest, said);
#pragma omp single
      {
        largest(said, rows, net.columns, places);
        for (int64_t row = 0; row < rows; ++row)
          newest[row] = tokens[row * count + offset] = ids ? ids[places[row]] : places[row];
      }
    }
  }

 private:
  void read(const int64_t* tokens) const {
    if (net.table_is_bfloat16)
      embed(static_cast<const bf16*>(net.table), tokens, rows, width, float(net.epsilon), embedded);
    else
      embed(static_cast<const float*>(net.table), tokens, rows, width, float(net.epsilon), embedded);
    narrow(embedded, rows * width, x);
    narrow(hidden, rows * state, h);
  }

  void turn() const {
    float* kept = net.gates == 4 ? memory : hidden;
    std::copy(kept, kept + rows * state, before);
    if (net.gates == 1) rnn(rows, state, from_x, from_h, hidden);
    if (net.gates == 3) gru(rows, state, from_x, from_h, before, hidden);
    if (net.gates == 4) lstm(rows, state, from_x, from_h, before, memory, hidden);
    narrow(hidden, rows * state, h);
  }

  void head(float* logits) const {
    product(net.of_summary, static_cast<const bf16*>(h), rows, state, net.inner,
            halves(net.inner, [this](int64_t row, int64_t first, f32x16 sums) {
              store(inner + row * net.inner + first, swish(sums + load(part + row * net.inner + first)));
            }));
#pragma omp barrier
    product(net.down, static_cast<const bf16*>(inner), rows, net.inner, width,
            halves(width, [this](int64_t row, int64_t first, f32x16 sums) {
              const f32x16 moved = sums + load(net.down_bias + first);
              store(mixed + row * width + first, moved + load(context + row * width + first));
            }));
#pragma omp barrier
    product(net.out, static_cast<const bf16*>(mixed), rows, width, net.columns,
            [this, logits](int64_t row, int64_t block, const Pair& sums) {
              float y[BLOCK];
              store(y, sums.left + load(net.out_bias + block * BLOCK));
              store(y + LANES, sums.right + load(net.out_bias + block * BLOCK + LANES));
              const int64_t first = block * BLOCK;
              std::copy(y, y + std::min(BLOCK, net.columns - first), logits + row * net.columns + first);
            });
  }

  static void narrow(const float* from, int64_t count, bf16* to) {
    for (int64_t i = 0; i < count; i += LANES) store(to + i, load(from + i));
  }
};

}  // namespace
