// Parameters as one flat tensor, of which every rank of an axis has a part.
//
// They stand one after the other, each from a multiple of kNormBlock elements on, and all parts are
// equally many such blocks. So a collective takes the flat tensor as it is, parts are cut at
// borders of blocks, as norms need it (compute/norm.h), and what lies where follows from the
// parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/parallel/comm_hook.h"
#include "trainer/parallel/mesh.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A value. REQUIRES: parameters of one type.
class UnitLayout {
 public:
  UnitLayout(std::vector<NamedParameter> parameters, int rank, int ranks);

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  int64_t elements() const { return part_ * ranks_; }  // of the flat tensor
  int64_t part() const { return part_; }               // of each rank's part
  // Of the flat tensor, which may be longer.
  at::Tensor OwnPart(const at::Tensor& flat) const { return flat.narrow(0, rank_ * part_, part_); }
  // The parameter's elements in the flat tensor, in its shape.
  at::Tensor Whole(const at::Tensor& flat, size_t parameter) const;
  // The parameter's elements in the own part; has one dimension, and may be empty.
  at::Tensor Piece(const at::Tensor& part, size_t parameter) const;
  // The same of a tensor of the parameter's shape.
  at::Tensor PieceOfWhole(const at::Tensor& tensor, size_t parameter) const;
  int64_t PieceBegin(size_t parameter) const { return ranges_[parameter].begin; }
  // Where that belongs.
  StatePlacement PlacementOf(size_t parameter) const;
  // The parameters' memory becomes that of the flat tensor, with their values.
  void MoveTo(const at::Tensor& flat) const;

 private:
  struct Range {
    int64_t flat = 0;    // where the parameter begins in the flat tensor
    int64_t begin = 0;   // of the own elements, in the parameter
    int64_t length = 0;  // of those
  };

  std::vector<NamedParameter> parameters_;
  std::vector<Range> ranges_;  // by parameter
  int64_t part_ = 0;
  int64_t rank_;
  int64_t ranks_;
};

struct ShardedUnit {
  // Of the own part of the values.
  void TakePieces(const at::Tensor& part);

  UnitLayout layout;
  at::Tensor flat = {};                 // the parameters' memory
  std::vector<at::Tensor> pieces = {};  // by parameter; what the optimizer updates
};

// What one rank has of a parameter, for its optimizer.
struct Shard {
  std::string name;
  at::Tensor values;  // of one dimension; may be empty
  StatePlacement placement;
};
// In the order of the units and their parameters.
std::vector<Shard> ShardsOf(std::span<const ShardedUnit> units);

// Neighbours in the list of parameters together, until they have `bytes` or the type changes.
std::vector<std::vector<NamedParameter>> UnitsOf(std::span<const NamedParameter> parameters,
                                                 int64_t bytes);

// A zeroed flat tensor for collectives of the axis.
at::Tensor FlatOn(const Axis& axis, int64_t elements, const at::TensorOptions& options);

// All ranks' parts, one after the other, into `flat`, of which `own` may be a part. In the
// background; nullptr: it is done, as this rank is alone.
c10::intrusive_ptr<c10d::Work> GatherParts(const Axis& axis,
                                           const at::Tensor& own,
                                           const at::Tensor& flat);

}  // namespace ddprun::trainer
