// The keys and values of the tokens that a language model has seen, to compute each once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddprun::trainer {

// Shapes: B batch, H heads, L tokens, D width of a head. Only without gradients. One thread.
class KeyValueCache {
 public:
  // Returns the number of tokens that every block has seen.
  int64_t length() const { return length_; }

  // Adds the keys and values [B, H, L, D] of one block for the L tokens after length(). Returns
  // those of all tokens, [B, H, length() + L, D]: views that the next Extend() may change. Blocks
  // are numbered from 0.
  std::pair<at::Tensor, at::Tensor> Extend(size_t block,
                                           const at::Tensor& keys,
                                           const at::Tensor& values);

  // Adds tokens for a model that keeps no keys: [B, L] -> [B, length() + L].
  at::Tensor ExtendTokens(const at::Tensor& tokens);

  // Adds `count` to length(). Call it when every block has been extended by `count` tokens.
  void Advance(int64_t count) { length_ += count; }

 private:
  // Copies `added` behind the first length() places of `stored` along `dim`; may grow `stored`.
  at::Tensor Append(at::Tensor& stored, const at::Tensor& added, int64_t dim) const;

  int64_t length_ = 0;
  // Keys and values of each block, with room for more tokens.
  std::vector<std::pair<at::Tensor, at::Tensor>> blocks_;
  at::Tensor tokens_;
};

}  // namespace ddprun::trainer
