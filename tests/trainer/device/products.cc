#include "tests/trainer/device/products.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace ddprun::simulated {

namespace {

std::mutex mutex;
Products found;

bool IsAligned(const at::Tensor& matrix) {
  constexpr int64_t kElements = 16 / 2;
  const int64_t leading = std::max(matrix.stride(0), matrix.stride(1));
  return leading % kElements == 0 && matrix.storage_offset() % kElements == 0;
}

}  // namespace

void NoteProduct(const std::string& operation, const std::vector<at::Tensor>& matrices) {
  if (!operation.starts_with("aten::mm") && !operation.starts_with("aten::addmm")) return;
  std::string text = operation;
  bool aligned = true;
  for (const at::Tensor& matrix : matrices) {
    if (!matrix.defined() || matrix.dim() != 2 || matrix.element_size() != 2) continue;
    text += c10::str(" ", matrix.sizes(), "/", matrix.strides());
    aligned = aligned && IsAligned(matrix);
  }
  if (text == operation) return;
  const std::lock_guard lock(mutex);
  if (matrices.front().defined() && matrices.front().dim() == 1) ++found.with_vector;
  aligned ? void(++found.aligned) : found.unaligned.push_back(text);
}

Products TakeProducts() {
  const std::lock_guard lock(mutex);
  return std::exchange(found, {});
}

}  // namespace ddprun::simulated
