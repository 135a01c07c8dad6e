// What decoding on a CPU spends its time on: a Llama-shaped decoder that reads a few rows at a time (decoder.h), and
// the small products and cells of drafters (drafter.h), all from weights packed once (products.h).
//
// Every number is one chain of sums in a fixed order, whatever is computed beside it. So what the model says after a
// prefix is the same to the last bit, whether the tokens came one by one, among drafts, in a tree or in a prompt.

#include "decoder.h"
#include "drafter.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif

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
void recurrent_step(const Recurrent* net, int64_t rows, const int64_t* tokens, const float* context, const float* part,
                    float* hidden, float* memory, float* logits, int64_t num_threads) {
  thread_local std::vector<char> arena;
  const Drafting drafting(*net, rows, context, part, hidden, memory, arena);
#pragma omp parallel num_threads(int(num_threads))
  drafting.step(tokens, logits);
}
void recurrent_draft(const Recurrent* net, int64_t rows, const int64_t* anchors, const float* context,
                     const float* part, float* hidden, float* memory, int64_t count, const int64_t* ids,
                     int64_t* tokens, int64_t num_threads) {
  thread_local std::vector<char> arena;
  const Drafting drafting(*net, rows, context, part, hidden, memory, arena);
#pragma omp parallel num_threads(int(num_threads))
  drafting.draft(anchors, count, ids, tokens);
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
