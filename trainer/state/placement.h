// The place of a part in a whole tensor: boxes, or ranges of elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Returns the placement of elements [begin, end) of a flattened tensor with these sizes and this
// `placement`. An empty placement yields a flat part of the whole.
StatePlacement FlatPart(const StatePlacement& placement,
                        at::IntArrayRef sizes,
                        int64_t begin,
                        int64_t end);

// Returns the part without padding, which is its rows (in a flat part, elements) beyond the whole.
at::Tensor WithoutPadding(const StateTensor& part);
// Returns the elements of `whole` that `part` has, as a view. REQUIRES: `whole` is contiguous and
// has the global shape.
at::Tensor PartOfWhole(const at::Tensor& whole, const StateTensor& part);

// A part as runs: elements that are consecutive in both the part and the whole, in row-major order.
// All runs have one length, and their order is the same in both.
class PartRuns {
 public:
  PartRuns(at::IntArrayRef whole, at::IntArrayRef offset, at::IntArrayRef sizes, bool flat);

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  // Returns the first element of a run in the whole. In the part it is run * length().
  int64_t begin(int64_t run) const {
    int64_t begin = begin_;
    for (const auto& [size, stride] : outer_) {
      begin += run % size * stride;
      run /= size;
    }
    return begin;
  }

 private:
  int64_t count_ = 1;
  int64_t length_ = 1;
  int64_t begin_ = 0;                               // in the whole, of run 0
  std::vector<std::pair<int64_t, int64_t>> outer_;  // sizes and strides, the innermost first
};

// Calls use(begin in a, begin in b, elements) for each range that both parts have, in order.
template <typename Use>
void ForEachShared(const PartRuns& a, const PartRuns& b, const Use& use) {
  for (int64_t i = 0, j = 0; i < a.count() && j < b.count();) {
    const int64_t in_a = a.begin(i);
    const int64_t in_b = b.begin(j);
    const int64_t begin = std::max(in_a, in_b);
    const int64_t end = std::min(in_a + a.length(), in_b + b.length());
    if (begin < end) {
      use(i * a.length() + begin - in_a, j * b.length() + begin - in_b, end - begin);
    }
    ++(in_a + a.length() <= in_b + b.length() ? i : j);
  }
}

}  // namespace ddprun::trainer
