// States of several ranks in random layouts, which say which rank has which part of which tensor.
#pragma once

#include <ATen/Functions.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "trainer/state/placement.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Whole tensors: narrow, wide, of 0, 1 or 3 dimensions, without elements, larger than a shard.
inline std::vector<std::pair<std::string, at::Tensor>> WholeTensors() {
  const std::vector<std::vector<int64_t>> shapes = {{3, 1}, {7, 12}, {},        {5},
                                                    {1},    {0, 4},  {4, 3, 6}, {1200, 33}};
  std::vector<std::pair<std::string, at::Tensor>> wholes;
  for (const auto& shape : shapes) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    const auto dtype = wholes.size() % 3 == 2 ? at::kDouble : at::kFloat;
    // Negative, because negative zero must be kept, too.
    at::Tensor whole = at::arange(elements, dtype).reshape(shape).neg();
    wholes.emplace_back("t" + std::to_string(wholes.size()), whole);
  }
  return wholes;
}

// One rank's part of a tensor.
struct OwnPart {
  std::string name;
  at::Tensor tensor = {};
  StatePlacement placement = {};
  RankPart replicas = {};
  at::Tensor indices = {};  // of its elements in the flattened whole; -1 means padding
};

using Layout = std::vector<std::vector<OwnPart>>;  // by rank

inline VisitState OwnersOf(std::vector<OwnPart>& parts) {
  return [&parts](StateVisitor& visitor) {
    for (OwnPart& part : parts) {
      visitor.Section("model.", {}, part.replicas);
      visitor.Tensor(part.name, part.tensor, part.placement);
    }
  };
}

// Returns the values that a rank's part must have, with `padding` for padding.
inline at::Tensor ExpectedPart(const OwnPart& part, const at::Tensor& whole, double padding) {
  const at::Tensor flat = at::cat({whole.reshape(-1), at::full({1}, padding, whole.scalar_type())});
  const at::Tensor indices = at::where(part.indices < 0, whole.numel(), part.indices);
  return flat.index_select(0, indices.reshape(-1)).reshape(part.indices.sizes());
}

class LayoutMaker {
 public:
  LayoutMaker(uint64_t seed, int64_t ranks) : random_(seed), ranks_(ranks) {}

  Layout Make() {
    Layout layout(static_cast<size_t>(ranks_));
    for (const auto& [name, whole] : WholeTensors()) Place(name, whole, layout);
    for (auto& parts : layout) {
      for (OwnPart& part : parts) {
        part.tensor = at::full(part.tensor.sizes(), -1, part.tensor.scalar_type());
      }
    }
    return layout;
  }

 private:
  int64_t Draw(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }
  // `count` + 1 borders, uneven, from 0 to `end`.
  std::vector<int64_t> Borders(int64_t end, int64_t count) {
    std::vector<int64_t> borders = {0, end};
    while (static_cast<int64_t>(borders.size()) <= count) borders.push_back(Draw(end + 1));
    std::ranges::sort(borders);
    return borders;
  }

  // Gives each group of ranks `each` parts along one dimension. A group's ranks have the flattened
  // and cut part of their group, and several ranks have equal pieces.
  void Place(const std::string& name, const at::Tensor& whole, Layout& layout) {
    int64_t groups = Divisor(ranks_);
    if (whole.dim() == 0) groups = 1;
    const int64_t shards = Divisor(ranks_ / groups);
    const int64_t same = ranks_ / groups / shards;
    const bool only_one = groups == 1 && shards == 1 && Draw(3) == 0;
    const int64_t owner = Draw(ranks_);
    const int64_t each = 1 + Draw(3);
    const int64_t dim = whole.dim() == 0 ? 0 : Draw(whole.dim());
    const auto cuts = Borders(whole.dim() == 0 ? 1 : whole.size(dim), groups * each);
    const int64_t padding = groups > 1 && each == 1 && dim == 0 && shards == 1 ? Draw(4) : 0;
    std::vector<std::vector<int64_t>> ranges(static_cast<size_t>(groups));
    const bool copies = Draw(2) == 0;  // replicas stand in the placement or in the section
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      if (only_one && rank != owner) continue;
      const int64_t group = rank % groups;
      const int64_t shard = rank / groups % shards;
      const int64_t replica = rank / groups / shards;
      OwnPart part{.name = name, .replicas = {.rank = replica, .size = same}};
      if (only_one) part.replicas = {.rank = 0, .size = 1};
      part.indices = at::arange(whole.numel(), at::kLong).reshape(whole.sizes());
      if (groups > 1) Cut(part, dim, cuts, group, groups, padding);
      if (shards > 1) {
        auto& range = ranges[static_cast<size_t>(group)];
        if (range.empty()) range = Borders(part.indices.numel(), shards);
        const int64_t begin = range[static_cast<size_t>(shard)];
        const int64_t end = range[static_cast<size_t>(shard) + 1];
        part.placement = FlatPart(part.placement, part.indices.sizes(), begin, end);
        part.indices = part.indices.reshape(-1).narrow(0, begin, end - begin);
      }
      if (copies && !only_one) {
        part.replicas = {.rank = 0, .size = 1};
        if (part.placement.empty()) part.placement.emplace_back();
        for (StatePart& piece : part.placement) piece.copies = {.rank = replica, .size = same};
      } else if (part.placement.empty() && same == ranks_ && !only_one && Draw(2) == 0) {
        part.replicas = {.rank = 0, .size = 0};
      }
      part.tensor = at::empty(part.indices.sizes(), whole.scalar_type());
      layout[static_cast<size_t>(rank)].push_back(std::move(part));
    }
  }

  // Takes the parts group, group + groups, ... between the cuts, as in a fused layer.
  void Cut(OwnPart& part,
           int64_t dim,
           const std::vector<int64_t>& cuts,
           int64_t group,
           int64_t groups,
           int64_t padding) {
    const std::vector<int64_t> shape = part.indices.sizes().vec();
    std::vector<at::Tensor> indices;
    int64_t begin = 0;
    for (size_t i = static_cast<size_t>(group); i + 1 < cuts.size(); i += groups) {
      int64_t length = cuts[i + 1] - cuts[i];
      indices.push_back(part.indices.narrow(dim, cuts[i], length));
      if (padding > 0 && group + 1 == groups) {
        std::vector<int64_t> sizes = shape;
        sizes[0] = padding;
        indices.push_back(at::full(sizes, -1, at::kLong));
        length += padding;
      }
      std::vector<int64_t> offset(shape.size());
      offset[static_cast<size_t>(dim)] = cuts[i];
      part.placement.push_back({.slice = {.global_shape = shape, .offset = offset},
                                .dimension = dim,
                                .begin = begin,
                                .length = length});
      begin += length;
    }
    part.indices = at::cat(indices, dim);
  }

  int64_t Divisor(int64_t number) {
    int64_t divisor = 1 + Draw(number);
    while (number % divisor != 0) ++divisor;
    return divisor;
  }

  std::mt19937_64 random_;
  const int64_t ranks_;
};

// Fills the parts with the values of the whole tensors.
inline void FillParts(Layout& layout) {
  const auto wholes = WholeTensors();
  for (auto& parts : layout) {
    for (OwnPart& part : parts) {
      for (const auto& [name, whole] : wholes) {
        if (name == part.name) part.tensor.copy_(ExpectedPart(part, whole, 77));
      }
    }
  }
}

// Returns the first part that has other values; "" means none. Padding must be unchanged.
inline std::string WrongPart(const Layout& layout, double padding) {
  const auto wholes = WholeTensors();
  for (size_t rank = 0; rank < layout.size(); ++rank) {
    for (const OwnPart& part : layout[rank]) {
      for (const auto& [name, whole] : wholes) {
        if (name != part.name) continue;
        if (!at::equal(part.tensor, ExpectedPart(part, whole, padding))) {
          return name + " of rank " + std::to_string(rank);
        }
      }
    }
  }
  return "";
}

}  // namespace ddprun::trainer
