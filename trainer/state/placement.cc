#include "trainer/state/placement.h"

#include <c10/util/accumulate.h>

namespace ddprun::trainer {

namespace {

struct Box {
  int64_t begin;  // in the flattened tensor
  std::vector<int64_t> offset;
  std::vector<int64_t> sizes;
};

// Returns a range of a flattened tensor as consecutive boxes, as few as possible.
std::vector<Box> BoxesOf(at::IntArrayRef sizes, int64_t begin, int64_t end) {
  std::vector<Box> boxes;
  const auto dims = static_cast<int64_t>(sizes.size());
  for (int64_t at = begin; at < end;) {
    int64_t dim = 0;  // the box is cut along the first possible dimension
    while (dim < dims) {
      const int64_t inner = c10::multiply_integers(sizes.slice(static_cast<size_t>(dim) + 1));
      if (at % inner == 0 && at + inner <= end) break;
      ++dim;
    }
    Box& box = boxes.emplace_back(Box{at, {}, {}});
    int64_t inner = 1;
    for (int64_t i = dims, rest = at; i-- > 0; rest /= sizes[i]) {
      box.offset.insert(box.offset.begin(), rest % sizes[i]);
      const int64_t left = std::min(sizes[i] - box.offset[0], (end - at) / inner);
      box.sizes.insert(box.sizes.begin(), i > dim ? sizes[i] : i == dim ? left : 1);
      if (i > dim) inner *= sizes[i];
    }
    at += c10::multiply_integers(box.sizes);
  }
  return boxes;
}

}  // namespace

StatePlacement FlatPart(const StatePlacement& placement,
                        at::IntArrayRef sizes,
                        int64_t begin,
                        int64_t end) {
  StatePlacement parts;
  const auto flat = [&](at::IntArrayRef whole, int64_t length, const RankPart& copies) {
    parts.push_back({.slice = {.global_shape = whole.vec(), .offset = {begin}, .flat = true},
                     .length = length,
                     .copies = copies});
  };
  if (placement.empty()) flat(sizes, end - begin, {});
  for (const StatePart& part : placement) {
    if (part.slice.global_shape.empty()) {
      flat(sizes, end - begin, part.copies);
      continue;
    }
    for (const Box& box : BoxesOf(sizes, begin, end)) {
      const auto dim = static_cast<size_t>(part.dimension);
      const int64_t part_end = part.length < 0 ? sizes[dim] : part.begin + part.length;
      const int64_t from = std::max(part.begin, box.offset[dim]);
      const int64_t to = std::min(part_end, box.offset[dim] + box.sizes[dim]);
      if (from >= to) continue;
      StatePart& cut = parts.emplace_back(part);
      for (size_t i = 0; i < sizes.size(); ++i) cut.slice.offset[i] += box.offset[i];
      cut.slice.offset[dim] += from - box.offset[dim] - part.begin;
      cut.begin = from - box.offset[dim];
      cut.length = to - from;
      cut.view = box.sizes;
      cut.skip = box.begin - begin;
    }
  }
  if (parts.empty()) flat(placement[0].slice.global_shape, 0, {});
  return parts;
}

at::Tensor WithoutPadding(const StateTensor& part) {
  if (part.tensor.dim() == 0) return part.tensor;
  const int64_t rows = part.flat ? c10::multiply_integers(part.global_shape) : part.global_shape[0];
  return part.tensor.narrow(0, 0,
                            std::clamp<int64_t>(rows - part.offset[0], 0, part.tensor.size(0)));
}

at::Tensor PartOfWhole(const at::Tensor& whole, const StateTensor& part) {
  const at::IntArrayRef sizes = part.tensor.sizes();
  at::Tensor same = part.flat ? whole.view(-1) : whole;
  for (int64_t dim = 0; dim < same.dim(); ++dim) {
    const int64_t begin = std::min(part.offset[static_cast<size_t>(dim)], same.size(dim));
    const int64_t size = sizes[static_cast<size_t>(dim)];
    same = same.narrow(dim, begin, std::min(size, same.size(dim) - begin));
  }
  return same;
}

PartRuns::PartRuns(at::IntArrayRef whole,
                   at::IntArrayRef offset,
                   at::IntArrayRef sizes,
                   bool flat) {
  if (flat) {
    begin_ = offset[0];
    length_ = sizes[0];
  } else {
    size_t dim = whole.size();
    int64_t stride = 1;
    // Joins the trailing dimensions that the part has completely, and the dimension before them.
    for (bool all = true; all && dim > 0; stride *= whole[dim]) {
      --dim;
      all = sizes[dim] == whole[dim];
      length_ *= sizes[dim];
      begin_ += offset[dim] * stride;
    }
    for (; dim-- > 0; stride *= whole[dim]) {
      outer_.emplace_back(sizes[dim], stride);
      count_ *= sizes[dim];
      begin_ += offset[dim] * stride;
    }
  }
  if (length_ == 0) count_ = 0;
}

}  // namespace ddprun::trainer
