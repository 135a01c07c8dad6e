// Vectors of 16 numbers, and what is done with them alone. GCC's vector types run anywhere; AVX-512 is used where it
// is.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

using f32x16 = float __attribute__((vector_size(64)));
using i32x16 = int32_t __attribute__((vector_size(64)));
using u32x16 = uint32_t __attribute__((vector_size(64)));
using u16x16 = uint16_t __attribute__((vector_size(32)));

struct bf16 {
  uint16_t bits;
};

constexpr int64_t LANES = 16;

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

inline f32x16 sigmoid(f32x16 x) { return 1.0f / (1.0f + exponential(-x)); }
inline f32x16 hyperbolic(f32x16 x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }
inline f32x16 swish(f32x16 x) { return x / (1.0f + exponential(-x)); }

}  // namespace
