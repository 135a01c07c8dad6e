// Attention over the slots of a static cache, in fp32.

#pragma once

#include <vector>

#include "handed.h"
#include "products.h"

namespace {

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

}  // namespace
