// Products of a few rows with packed matrices, shared by threads.
//
// Matrices [N,K] are packed in blocks of 32 columns: [N/32][K][2 x 16], in bfloat16 with two neighbouring K side by
// side, as the dot product of the CPU takes them. Each sum runs over K in order, whatever is computed beside it.

#pragma once

#include <omp.h>

#include "numbers.h"

constexpr int64_t BLOCK = 2 * LANES;
#if defined(__AVX512F__)
constexpr int TILE = 12;  // rows at once: 24 sums in 32 registers
#else
constexpr int TILE = 3;
#endif

namespace {

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

// Memory for one call, kept by the thread that calls.
template <class T>
T* carve(char*& rest, int64_t count) {
  T* place = reinterpret_cast<T*>(rest);
  rest += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
  return place;
}

}  // namespace
