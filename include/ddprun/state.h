// The state that a resumed run needs, as its owners name it: tensors by name, each with its place
// in the whole tensor of all ranks, and numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// One of `size` parts.
struct RankPart {
  int64_t rank = 0;
  int64_t size = 1;
};

// The place of a tensor in a larger tensor, the whole.
struct StateSlice {
  std::vector<int64_t> global_shape = {};  // of the whole; empty: the tensor is the whole
  std::vector<int64_t> offset = {};        // of the part in it
  // true: the tensor is 1-d and holds elements of the whole in row-major order, from offset[0] on.
  bool flat = false;
};

// The place in the whole of this rank's part of a parameter, and of its moments.
struct StatePart {
  StateSlice slice = {};
  int64_t dimension = 0;  // of the local tensor: indices [begin, begin + length)
  int64_t begin = 0;
  int64_t length = -1;  // -1: all
  // The place of this rank among tensor ranks that hold equal copies; it multiplies the section's
  // replicas. A slice without global_shape is the whole.
  RankPart copies = {};
  // Not empty: flattens the tensor, then views its elements from `skip` on with these sizes. Set by
  // FlatPart() (placement.h).
  std::vector<int64_t> view = {};
  int64_t skip = 0;
};
// Empty means that this rank has the whole. A rank that has nothing has one part without elements.
using StatePlacement = std::vector<StatePart>;

// One name may occur several times, with parts that do not overlap.
struct StateTensor {
  std::string name;
  at::Tensor tensor = {};                  // this rank's part; the owner's own memory
  std::vector<int64_t> global_shape = {};  // of the whole
  std::vector<int64_t> offset = {};        // of the part in the whole
  bool flat = false;                       // see StateSlice
  // The number of ranks that each have a tensor of their own; if there are several, it is stored as
  // slice [rank, ...] of the whole [ranks, ...]. 0: all ranks have the same tensor, or parts of
  // one.
  int64_t ranks = 0;
  // This rank among the ranks with an equal part; size 0: all ranks of the job have it.
  RankPart replicas = {.rank = 0, .size = 0};
};

// SEAM: an object with state names all of it once to a visitor, which saves or loads it. Names are
// those of parameters, never positions in a list. State that is made at first use must exist when
// it is named, so a number before it tells whether it exists; loading changes this number.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // Begins a section: `prefix` precedes the following names. Without `own`, all ranks have the same
  // tensors; with it, each of own->size ranks has its own (StateTensor::ranks). From a checkpoint
  // of another number of ranks, each rank gets the mean of theirs, and of integers the first one's.
  // `replicas`: see StateTensor, for ranks that name different tensors or slices; {0, 1} means that
  // no other rank has them.
  void Section(std::string prefix,
               std::optional<RankPart> own = {},
               RankPart replicas = {.rank = 0, .size = 0});
  // `placement` must be empty if several ranks have tensors of their own.
  void Tensor(const std::string& name,
              const at::Tensor& tensor,
              const StatePlacement& placement = {});
  // The number is equal on all ranks that name it.
  void Number(const std::string& name, int64_t& number) { VisitNumber(prefix_ + name, number); }

 protected:
  virtual void VisitTensor(StateTensor tensor) = 0;
  virtual void VisitNumber(const std::string& name, int64_t& number) = 0;

 private:
  std::string prefix_;
  std::optional<RankPart> own_;
  RankPart replicas_ = {.rank = 0, .size = 0};
};

}  // namespace ddprun
