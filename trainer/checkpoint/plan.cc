#include "trainer/checkpoint/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace ddprun::trainer {

namespace {

bool IsWhole(const StateTensor& tensor) {
  return tensor.tensor.sizes() == at::IntArrayRef(tensor.global_shape);
}

int64_t Rows(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? 1 : tensor.size(0);
}

}  // namespace

int64_t RowsWithin(const StateTensor& tensor) {
  if (tensor.tensor.numel() == 0) return 0;
  if (tensor.tensor.dim() == 0) return 1;
  const int64_t left = tensor.global_shape[0] - tensor.offset[0];
  return std::clamp<int64_t>(left, 0, tensor.tensor.size(0));
}

at::Tensor RowsOf(const StateTensor& tensor, const PlannedPiece& piece) {
  if (tensor.tensor.dim() == 0) return tensor.tensor;
  return tensor.tensor.narrow(0, piece.begin, piece.end - piece.begin);
}

std::vector<size_t> FirstOfTied(std::span<const StateTensor> tensors) {
  using Memory = std::tuple<const void*, at::ScalarType, std::vector<int64_t>,
                            std::vector<int64_t>, std::vector<int64_t>>;
  std::vector<size_t> first(tensors.size());
  std::iota(first.begin(), first.end(), size_t{0});
  std::map<Memory, size_t> seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].tensor;
    // Several parts of one tensor are one name, and a tensor with itself is not tied.
    if (tensor.numel() == 0 || !IsWhole(tensors[i])) continue;
    first[i] = seen.try_emplace({tensor.const_data_ptr(), tensor.scalar_type(),
                                 tensor.sizes().vec(), tensor.strides().vec(), tensors[i].offset},
                                i)
                   .first->second;
  }
  return first;
}

std::vector<PlannedPiece> PlanShard(std::span<const StateTensor> tensors, RankPart part) {
  const std::vector<size_t> first = FirstOfTied(tensors);
  const auto shared = [&](size_t i) { return first[i] == i && IsWhole(tensors[i]); };
  int64_t all_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (shared(i)) all_bytes += static_cast<int64_t>(tensors[i].tensor.nbytes());
  }
  // The border between two ranks, among the bytes of all shared tensors one after the other.
  const auto border = [&](int64_t rank) {
    return all_bytes / part.size * rank + all_bytes % part.size * rank / part.size;
  };
  std::vector<PlannedPiece> pieces;
  int64_t at = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    PlannedPiece piece{.tensor = i, .begin = 0, .end = RowsWithin(tensors[i])};
    if (first[i] != i || piece.end == 0) continue;
    if (shared(i)) {
      const int64_t rows = Rows(tensors[i].tensor);
      const int64_t row_bytes = static_cast<int64_t>(tensors[i].tensor.nbytes()) / rows;
      // The first row that begins at a border or after it.
      const auto row_at = [&](int64_t byte) {
        return std::clamp<int64_t>((byte - at + row_bytes - 1) / row_bytes, 0, rows);
      };
      piece.begin = row_at(border(part.rank));
      piece.end = row_at(border(part.rank + 1));
      at += row_bytes * rows;
    }
    if (piece.begin < piece.end) pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace ddprun::trainer
