// What decoding on a CPU spends its time on: a Llama-shaped decoder that reads a few rows at a time, and the small
// products and cells of drafters, all from weights packed once.
//
// Every number is one chain of sums in a fixed order, whatever is computed beside it. So what the model says after a
// prefix is the same to the last bit, whether the tokens came one by one, among drafts, in a tree or in a prompt.
//
// Matrices [N,K] are packed in blocks of 32 columns: [N/32][K][2 x 16], in bfloat16 with two neighbouring K side by
// side, as the dot product of the CPU takes them. Sums, residuals, norms and attention are in fp32.

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

using f32x16 = float __attribute__((vector_size(64)));
using i32x16 = int32_t __attribute__((vector_size(64)));
using u32x16 = uint32_t __attribute__((vector_size(64)));
using u16x16 = uint16_t __attribute__((vector_size(32)));

struct bf16 {
  uint16_t bits;
};

constexpr int64_t LANES = 16, BLOCK = 2 * LANES;
#if defined(__AVX512F__)
constexpr int TILE = 12;  // rows at once: 24 sums in 32 registers
#else
constexpr int TILE = 3;
#endif

// ---------------------------------------------------------------- what Python hands over, field by field

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

// ---------------------------------------------------------------- numbers

namespace {

inline float wide(float x) { return x; }

inline float wide(bf16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float y;
  std::memcpy(&y, &bits, sizeof y);
  return y;
}

template <class T>
inline T narrow(float x);

template <>
inline float narrow<float>(float x) {
  return x;
}

template <>
inline bf16 narrow<bf16>(float x) {  // to nearest, ties to even
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return {uint16_t((bits >> 16) | 0x40)};
  return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <class To, class From>
inline To same_bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

inline f32x16 load(const float* x) {
  f32x16 y;
  std::memcpy(&y, x, sizeof y);
  return y;
}

inline f32x16 load(const bf16* x) {
  u16x16 y;
  std::memcpy(&y, x, sizeof y);
  return same_bits<f32x16>(__builtin_convertvector(y, u32x16) << 16);
}

inline void store(float* to, f32x16 x) { std::memcpy(to, &x, sizeof x); }

inline void store(bf16* to, f32x16 x) {
#if defined(__AVX512BF16__)
  const __m256bh y = _mm512_cvtneps_pbh(same_bits<__m512>(x));
  std::memcpy(to, &y, sizeof y);
#else
  for (int i = 0; i < LANES; ++i) to[i] = narrow<bf16>(x[i]);
#endif
}

inline f32x16 all(float x) { return f32x16{} + x; }

inline float sum(f32x16 x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(same_bits<__m512>(x));
#else
  float y[LANES];
  store(y, x);
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) y[i] += y[i + half];
  return y[0];
#endif
}

// e^x to about 1e-7, after Cephes; what lies below -87 is taken for -87.
inline f32x16 exponential(f32x16 x) {
  const f32x16 low = all(-87.0f), high = all(88.0f), magic = all(12582912.0f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const f32x16 n = (x * 1.44269504f + magic) - magic;
  const f32x16 r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  f32x16 p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return p * same_bits<f32x16>((__builtin_convertvector(n, i32x16) + 127) << 23);
}

// ---------------------------------------------------------------- products

struct Pair {
  f32x16 left, right;  // columns 0..15 and 16..31 of a block
};

template <int M>
inline void multiply(const float* weights, const float* x, int64_t stride, int64_t depth, Pair (&sums)[M]) {
  f32x16 left[M] = {}, right[M] = {};
  for (int64_t k = 0; k < depth; ++k, weights += BLOCK) {
    const f32x16 first = load(weights), second = load(weights + LANES);
    for (int m = 0; m < M; ++m) {
      const float one = x[m * stride + k];
      left[m] += first * one;
      right[m] += second * one;
    }
  }
  for (int m = 0; m < M; ++m) sums[m] = Pair{left[m], right[m]};
}

template <int M>
inline void multiply(const bf16* weights, const bf16* x, int64_t stride, int64_t depth, Pair (&sums)[M]) {
#if defined(__AVX512BF16__)
  __m512 left[M], right[M];
  for (int m = 0; m < M; ++m) left[m] = right[m] = _mm512_setzero_ps();
  for (int64_t k = 0; k < depth; k += 2, weights += 2 * BLOCK) {
    const __m512bh first = (__m512bh)_mm512_loadu_si512(weights);
    const __m512bh second = (__m512bh)_mm512_loadu_si512(weights + BLOCK);
    for (int m = 0; m < M; ++m) {
      int32_t two;
      std::memcpy(&two, x + m * stride + k, sizeof two);
      const __m512bh both = (__m512bh)_mm512_set1_epi32(two);
      left[m] = _mm512_dpbf16_ps(left[m], first, both);
      right[m] = _mm512_dpbf16_ps(right[m], second, both);
    }
  }
  for (int m = 0; m < M; ++m) sums[m] = Pair{same_bits<f32x16>(left[m]), same_bits<f32x16>(right[m])};
#else
  f32x16 left[M] = {}, right[M] = {};
  for (int64_t k = 0; k < depth; k += 2, weights += 2 * BLOCK) {
    u32x16 raw[2];
    std::memcpy(raw, weights, sizeof raw);
    const f32x16 left_0 = same_bits<f32x16>(raw[0] << 16), left_1 = same_bits<f32x16>(raw[0] & 0xffff0000u);
    const f32x16 right_0 = same_bits<f32x16>(raw[1] << 16), right_1 = same_bits<f32x16>(raw[1] & 0xffff0000u);
    for (int m = 0; m < M; ++m) {
      const float one = wide(x[m * stride + k]), two = wide(x[m * stride + k + 1]);
      left[m] += left_0 * one;
      left[m] += left_1 * two;
      right[m] += right_0 * one;
      right[m] += right_1 * two;
    }
  }
  for (int m = 0; m < M; ++m) sums[m] = Pair{left[m], right[m]};
#endif
}

// This thread's part of `count` things.
struct Share {
  int64_t first, last;
  explicit Share(int64_t count) {
    const int64_t number = omp_get_thread_num(), total = omp_get_num_threads();
    first = count * number / total;
    last = count * (number + 1) / total;
  }
};

template <int M, class T, class Take>
inline void tile(const T* weights, const T* x, int64_t depth, int64_t row, int64_t block, const Take& take) {
  Pair sums[M];
  multiply<M>(weights, x + row * depth, depth, depth, sums);
  for (int m = 0; m < M; ++m) take(row + m, block, sums[m]);
}

template <int M, class T, class Take>
inline void rest(int64_t left, const T* weights, const T* x, int64_t depth, int64_t row, int64_t block,
                 const Take& take) {
  if constexpr (M > 0) {
    if (left == M) return tile<M>(weights, x, depth, row, block, take);
    rest<M - 1>(left, weights, x, depth, row, block, take);
  }
}

// x [rows, depth] times a packed matrix; `take(row, block, sums)` gets 32 columns at a time. Threads share the blocks.
template <class T, class Take>
void product(const void* packed, const T* x, int64_t rows, int64_t depth, int64_t columns, const Take& take) {
  const Share share((columns + BLOCK - 1) / BLOCK);
  for (int64_t block = share.first; block < share.last; ++block) {
    const T* weights = static_cast<const T*>(packed) + block * depth * BLOCK;
    int64_t row = 0;
    for (; row + TILE <= rows; row += TILE) tile<TILE>(weights, x, depth, row, block, take);
    rest<TILE - 1>(rows - row, weights, x, depth, row, block, take);
  }
}

// ---------------------------------------------------------------- what lies between the products

template <class T, class From>
void normalize(const From* x, const float* weight, int64_t width, float epsilon, T* out) {
  f32x16 squares{};
  for (int64_t i = 0; i < width; i += LANES) {
    const f32x16 part = load(x + i);
    squares += part * part;
  }
  const float factor = 1.0f / std::sqrt(sum(squares) / float(width) + epsilon);
  for (int64_t i = 0; i < width; i += LANES) {
    const f32x16 even = load(x + i) * factor;
    store(out + i, weight ? even * load(weight + i) : even);
  }
}

void rotate(float* x, const float* cosine, const float* sine, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
}

// The slots that one query sees, in their order.
void look(const Block& block, int64_t row, int64_t token, int64_t window, std::vector<int32_t>& seen) {
  seen.clear();
  const int64_t* slots = block.slots + row * block.num_tokens;
  if (!block.ancestors) {
    const int64_t last = slots[token];
    for (int64_t slot = window ? std::max<int64_t>(0, last - window + 1) : 0; slot <= last; ++slot)
      seen.push_back(int32_t(slot));
    return;
  }
  const int64_t length = slots[0], place = length + block.depths[token];
  for (int64_t slot = window ? std::max<int64_t>(0, place - window + 1) : 0; slot < length; ++slot)
    seen.push_back(int32_t(slot));
  for (int64_t node = 0; node < block.num_tokens; ++node) {
    const bool near = !window || block.depths[token] - block.depths[node] < window;
    if (near && block.ancestors[token * block.num_tokens + node]) seen.push_back(int32_t(slots[node]));
  }
}

// softmax(q k * scale) v over the seen slots, for N heads that share keys and values; what is loaded of those serves
// all. `scores` has room for N rows of the number of slots, filled up to whole vectors.
template <int N, class T>
void attend(const float* queries, const T* keys, const T* values, const std::vector<int32_t>& seen, int64_t width,
            float scale, float* scores, T* out) {
  const int64_t count = int64_t(seen.size()), stride = (count + LANES - 1) / LANES * LANES;
  float largest[N], factor[N];
  for (int n = 0; n < N; ++n) largest[n] = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    const T* key = keys + seen[size_t(i)] * width;
    f32x16 parts[N] = {};
    for (int64_t e = 0; e < width; e += LANES) {
      const f32x16 part = load(key + e);
      for (int n = 0; n < N; ++n) parts[n] += load(queries + n * width + e) * part;
    }
    for (int n = 0; n < N; ++n) {
      scores[n * stride + i] = sum(parts[n]) * scale;
      largest[n] = std::max(largest[n], scores[n * stride + i]);
    }
  }
  for (int n = 0; n < N; ++n) {
    for (int64_t i = count; i < stride; ++i) scores[n * stride + i] = -INFINITY;
    f32x16 total{};
    for (int64_t i = 0; i < count; i += LANES) {
      const f32x16 weights = exponential(load(scores + n * stride + i) - largest[n]);
      store(scores + n * stride + i, weights);
      total += weights;
    }
    factor[n] = 1.0f / sum(total);
  }
  for (int64_t e = 0; e < width; e += LANES) {
    f32x16 mixed[N] = {};
    for (int64_t i = 0; i < count; ++i) {
      const f32x16 part = load(values + seen[size_t(i)] * width + e);
      for (int n = 0; n < N; ++n) mixed[n] += scores[n * stride + i] * part;
    }
    for (int n = 0; n < N; ++n) store(out + n * width + e, mixed[n] * factor[n]);
  }
}

// The heads of one group, `AT_ONCE` together.
constexpr int AT_ONCE = 4;

template <class T>
void attend_group(int64_t heads, const float* queries, const T* keys, const T* values, const std::vector<int32_t>& seen,
                  int64_t width, float scale, float* scores, T* out) {
  for (; heads > 0; heads -= AT_ONCE, queries += AT_ONCE * width, out += AT_ONCE * width) {
    if (heads == 1) attend<1>(queries, keys, values, seen, width, scale, scores, out);
    if (heads == 2) attend<2>(queries, keys, values, seen, width, scale, scores, out);
    if (heads == 3) attend<3>(queries, keys, values, seen, width, scale, scores, out);
    if (heads >= 4) attend<4>(queries, keys, values, seen, width, scale, scores, out);
  }
}

// Memory for one call, kept by the thread that calls.
template <class T>
T* carve(char*& rest, int64_t count) {
  T* place = reinterpret_cast<T*>(rest);
  rest += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
  return place;
}

// ---------------------------------------------------------------- the whole

template <class T>
void read(const Model& model, const Block& block) {
  const int64_t rows = block.num_rows * block.num_tokens, width = model.width, head = model.head_width;
  const int64_t mixed_width = model.heads * head, all_heads = model.heads + 2 * model.groups;
  const int64_t per_layer = block.num_rows * model.groups * block.capacity * head, half = model.rotary / 2;
  const float epsilon = float(model.epsilon), scale = float(model.scale);

  thread_local std::vector<char> arena;
  const int64_t needed =
      rows * (4 * width + 4 * all_heads * head + int64_t(sizeof(T)) * (width + mixed_width + model.inner));
  arena.resize(needed + 6 * 64);
  char* free = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64) % 64;
  float* residual = carve<float>(free, rows * width);
  float* qkv = carve<float>(free, rows * all_heads * head);
  T* normed = carve<T>(free, rows * width);
  T* mixed = carve<T>(free, rows * mixed_width);
  T* inner = carve<T>(free, rows * model.inner);

  const auto add = [=](int64_t row, int64_t part, const Pair& sums) {
    float* to = residual + row * width + part * BLOCK;
    store(to, load(to) + sums.left);
    if (part * BLOCK + LANES < width) store(to + LANES, load(to + LANES) + sums.right);
  };
  const auto gate = [=, &model](int64_t row, int64_t part, const Pair& sums) {
    const f32x16 open = sums.left / (1.0f + exponential(-sums.left));
    store(inner + row * model.inner + part * LANES, open * sums.right);
  };

#pragma omp parallel num_threads(int(block.num_threads))
  {
    const Share mine(rows), units(rows * all_heads);
    std::vector<int32_t> seen;
    seen.reserve(size_t(block.view));
    std::vector<float> scores(size_t(AT_ONCE * (block.view + LANES)));
    const int64_t shared = model.heads / model.groups;  // heads of a group

    const auto norm_rows = [&](const float* weight) {
      for (int64_t row = mine.first; row < mine.last; ++row)
        normalize(residual + row * width, weight, width, epsilon, normed + row * width);
    };
    const auto listen = [&](int64_t layer) {
      for (int64_t tap = 0; tap < block.num_taps; ++tap) {
        if (block.taps[tap] != layer) continue;
        for (int64_t row = mine.first; row < mine.last; ++row) {
          T* to = static_cast<T*>(block.heard) + (row * block.num_taps + tap) * width;
          if (layer < 0) {
            std::memcpy(to, static_cast<T*>(block.final) + row * width, size_t(width) * sizeof(T));
          } else {
            for (int64_t i = 0; i < width; i += LANES) store(to + i, load(residual + row * width + i));
          }
        }
      }
    };

    for (int64_t row = mine.first; row < mine.last; ++row) {
      const T* from = static_cast<const T*>(model.embedding) + block.tokens[row] * width;
      for (int64_t i = 0; i < width; i += LANES) store(residual + row * width + i, load(from + i));
    }
    for (int64_t number = 0; number < model.num_layers; ++number) {
      const Layer& layer = model.layers[number];
      T* keys = static_cast<T*>(block.keys) + number * per_layer;
      T* values = static_cast<T*>(block.values) + number * per_layer;

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
      for (int64_t unit = units.first; unit < units.last; ++unit) {
        const int64_t row = unit / all_heads, which = unit % all_heads, group = (which - model.heads) % model.groups;
        float* x = qkv + unit * head;
        const bool is_query = which < model.heads, is_key = !is_query && which < model.heads + model.groups;
        if (is_query && layer.query_norm) normalize(x, layer.query_norm, head, epsilon, x);
        if (is_key && layer.key_norm) normalize(x, layer.key_norm, head, epsilon, x);
        if (is_query || is_key)
          rotate(x, block.cosine + block.positions[row] * half, block.sine + block.positions[row] * half, half);
        if (is_query) continue;
        const int64_t place = (row / block.num_tokens * model.groups + group) * block.capacity + block.slots[row];
        T* to = (is_key ? keys : values) + place * head;
        for (int64_t e = 0; e < head; e += LANES) store(to + e, load(x + e));
      }
#pragma omp barrier
      int64_t looked = -1;
      // In turns: later tokens of a prompt see more slots than earlier ones.
      for (int64_t pair = omp_get_thread_num(); pair < rows * model.groups; pair += omp_get_num_threads()) {
        const int64_t row = pair / model.groups, group = pair % model.groups;
        if (row != looked) look(block, row / block.num_tokens, row % block.num_tokens, layer.window, seen);
        looked = row;
        const int64_t start = (row / block.num_tokens * model.groups + group) * block.capacity * head;
        const float* queries = qkv + (row * all_heads + group * shared) * head;
        T* out = mixed + row * mixed_width + group * shared * head;
        attend_group(shared, queries, keys + start, values + start, seen, head, scale, scores.data(), out);
      }
#pragma omp barrier
      product(layer.out, mixed, rows, mixed_width, width, add);
#pragma omp barrier
      norm_rows(layer.norm_between);
#pragma omp barrier
      product(layer.gate_up, normed, rows, width, 2 * model.inner, gate);
#pragma omp barrier
      product(layer.down, inner, rows, model.inner, width, add);
#pragma omp barrier
      listen(number);
    }
    for (int64_t row = mine.first; row < mine.last; ++row)
      normalize(residual + row * width, model.norm, width, epsilon, static_cast<T*>(block.final) + row * width);
    listen(-1);
  }
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
    if (silu) whole = whole / (1.0f + exponential(-whole));
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

inline f32x16 sigmoid(f32x16 x) { return 1.0f / (1.0f + exponential(-x)); }
inline f32x16 hyperbolic(f32x16 x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }

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
                store(inner + row * net.inner + first, open / (1.0f + exponential(-open)));
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

template <class T, int64_t PAIRED>
void pack(const T* from, int64_t columns, int64_t depth, T* to) {
#pragma omp parallel for
  for (int64_t block = 0; block < (columns + BLOCK - 1) / BLOCK; ++block) {
    T* start = to + block * depth * BLOCK;
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t column = 0; column < BLOCK; ++column) {
        const int64_t place = (k / PAIRED) * PAIRED * BLOCK + column * PAIRED + k % PAIRED;
        start[place] = block * BLOCK + column < columns ? from[(block * BLOCK + column) * depth + k] : T{};
      }
  }
}

}  // namespace

extern "C" {

void read_float32(const Model* model, const Block* block) { read<float>(*model, *block); }
void read_bfloat16(const Model* model, const Block* block) { read<bf16>(*model, *block); }

void speak_float32(const Model* model, const void* hidden, int64_t rows, float* logits, int64_t num_threads) {
  speak<float>(*model, hidden, rows, logits, num_threads);
}
void speak_bfloat16(const Model* model, const void* hidden, int64_t rows, float* logits, int64_t num_threads) {
  speak<bf16>(*model, hidden, rows, logits, num_threads);
}

void pack_float32(const float* from, int64_t columns, int64_t depth, float* to) {
  pack<float, 1>(from, columns, depth, to);
}
void pack_bfloat16(const bf16* from, int64_t columns, int64_t depth, bf16* to) {
  pack<bf16, 2>(from, columns, depth, to);
}

void linear_bfloat16(const void* packed, const float* bias, const float* x, int64_t rows, int64_t depth,
                     int64_t columns, const float* add, int64_t silu, float* out, int64_t num_threads) {
  linear(packed, bias, x, rows, depth, columns, add, silu != 0, out, num_threads);
}
void recurrent_step_bfloat16(const Recurrent* net, int64_t rows, const int64_t* tokens, const float* context,
                             const float* part, float* hidden, float* memory, float* logits, int64_t num_threads) {
  recurrent_step(*net, rows, tokens, context, part, hidden, memory, logits, num_threads);
}
void embed_float32(const float* table, const int64_t* tokens, int64_t rows, int64_t width, double epsilon, float* out) {
  embed(table, tokens, rows, width, float(epsilon), out);
}
void embed_bfloat16(const bf16* table, const int64_t* tokens, int64_t rows, int64_t width, double epsilon, float* out) {
  embed(table, tokens, rows, width, float(epsilon), out);
}
void largest_float32(const float* x, int64_t rows, int64_t width, int64_t* places) { largest(x, rows, width, places); }
void rnn_cell(int64_t rows, int64_t width, const float* from_x, const float* from_h, float* hidden) {
  rnn(rows, width, from_x, from_h, hidden);
}
void gru_cell(int64_t rows, int64_t width, const float* from_x, const float* from_h, const float* before,
              float* hidden) {
  gru(rows, width, from_x, from_h, before, hidden);
}
void lstm_cell(int64_t rows, int64_t width, const float* from_x, const float* from_h, const float* before,
               float* memory, float* hidden) {
  lstm(rows, width, from_x, from_h, before, memory, hidden);
}

// Ask for large pages, so that streaming the weights misses fewer of them; before the memory is first touched.
void advise(void* start, int64_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const uintptr_t page = 4096, first = (reinterpret_cast<uintptr_t>(start) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(start) + uintptr_t(size)) / page * page;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // extern "C"
