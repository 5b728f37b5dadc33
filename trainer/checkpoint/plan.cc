#include "trainer/checkpoint/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/crc32c.h"
#include "trainer/state/placement.h"

namespace ddprun::trainer {

namespace {

constexpr int64_t kShareBytes = 64 << 10;  // the smallest share of a divided tensor

}  // namespace

at::Tensor RowsOf(const StateTensor& tensor, const PlannedPiece& piece) {
  if (tensor.tensor.dim() == 0) return tensor.tensor;
  return tensor.tensor.narrow(0, piece.begin, piece.end - piece.begin);
}

std::vector<size_t> FindFirstOfTied(std::span<const StateTensor> tensors) {
  using Sizes = std::vector<int64_t>;
  using Memory = std::tuple<const void*, at::ScalarType, Sizes, Sizes, Sizes, Sizes>;
  std::vector<size_t> first(tensors.size());
  std::iota(first.begin(), first.end(), size_t{0});
  std::map<Memory, size_t> seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].tensor;
    if (tensor.numel() == 0) continue;
    first[i] =
        seen.try_emplace({tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(),
                          tensor.strides().vec(), tensors[i].offset, tensors[i].global_shape},
                         i)
            .first->second;
  }
  return first;
}

std::vector<PlannedPiece> PlanShard(std::span<const StateTensor> tensors, RankPart part) {
  const std::vector<size_t> first = FindFirstOfTied(tensors);
  std::vector<PlannedPiece> pieces;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor own = WithoutPadding(tensors[i]);
    if (first[i] != i || own.numel() == 0) continue;
    const RankPart& replicas = tensors[i].replicas.size > 0 ? tensors[i].replicas : part;
    const int64_t rows = own.dim() == 0 ? 1 : own.size(0);
    const auto most = std::max<int64_t>(1, static_cast<int64_t>(own.nbytes()) / kShareBytes);
    const int64_t shares = std::min({replicas.size, rows, most});
    const int64_t begin = Crc32c(tensors[i].name, 0) % replicas.size;
    const int64_t share = (replicas.rank + replicas.size - begin) % replicas.size;
    if (share >= shares) continue;
    const auto border = [&](int64_t n) { return rows / shares * n + rows % shares * n / shares; };
    pieces.push_back({.tensor = i, .begin = border(share), .end = border(share + 1)});
  }
  return pieces;
}

}  // namespace ddprun::trainer
