#include "trainer/models/kv_cache.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace ddprun::trainer {

namespace {

constexpr int64_t kFirstRoom = 64;  // tokens

}  // namespace

std::pair<at::Tensor, at::Tensor> KeyValueCache::Extend(size_t block,
                                                        const at::Tensor& keys,
                                                        const at::Tensor& values) {
  if (blocks_.size() <= block) blocks_.resize(block + 1);
  auto& [stored_keys, stored_values] = blocks_[block];
  return {Append(stored_keys, keys, 2), Append(stored_values, values, 2)};
}

at::Tensor KeyValueCache::ExtendTokens(const at::Tensor& tokens) {
  return Append(tokens_, tokens, 1);
}

at::Tensor KeyValueCache::Append(at::Tensor& stored, const at::Tensor& added, int64_t dim) const {
  const int64_t needed = length_ + added.size(dim);
  if (!stored.defined() || stored.size(dim) < needed) {
    std::vector<int64_t> sizes = added.sizes().vec();
    // Doubles the size, so that the copies of a long text are linear in its length.
    sizes[static_cast<size_t>(dim)] = std::max(kFirstRoom, 2 * needed);
    at::Tensor larger = at::empty(sizes, added.options());
    if (stored.defined()) larger.narrow(dim, 0, length_).copy_(stored.narrow(dim, 0, length_));
    stored = larger;
  }
  stored.narrow(dim, length_, added.size(dim)).copy_(added);
  return stored.narrow(dim, 0, needed);
}

}  // namespace ddprun::trainer
