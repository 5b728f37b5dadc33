// Parameters as one flat tensor, of which every rank of an axis has a part.
//
// The parameters follow each other. Each begins at a multiple of kNormBlock elements, and all parts
// have equally many such blocks. So a collective can use the flat tensor as it is, parts end at
// borders of blocks, as norms need (compute/norm.h), and parameters alone decide the layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ddprun/comm_hook.h>
#include <ddprun/mesh.h>
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A value type. REQUIRES: parameters of one element type.
class UnitLayout {
 public:
  UnitLayout(std::vector<NamedParameter> parameters, int rank, int ranks);

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  int64_t elements() const { return part_ * ranks_; }  // of the flat tensor
  int64_t part() const { return part_; }               // of each rank's part
  // Returns this rank's part of the flat tensor, which may be longer than elements().
  at::Tensor OwnPart(const at::Tensor& flat) const { return flat.narrow(0, rank_ * part_, part_); }
  // Returns the parameter's elements in the flat tensor, in the parameter's shape.
  at::Tensor Whole(const at::Tensor& flat, size_t parameter) const;
  // Returns the parameter's elements in this rank's part: 1-d, perhaps empty.
  at::Tensor Piece(const at::Tensor& part, size_t parameter) const;
  // Returns the elements of Piece() from a tensor of the parameter's shape.
  at::Tensor PieceOfWhole(const at::Tensor& tensor, size_t parameter) const;
  int64_t PieceBegin(size_t parameter) const { return ranges_[parameter].begin; }
  // Returns where Piece() lies in the parameter.
  StatePlacement PlacementOf(size_t parameter) const;
  // Moves the parameters, with their values, to the memory of the flat tensor.
  void MoveTo(const at::Tensor& flat) const;

 private:
  struct Range {
    int64_t flat = 0;    // where the parameter begins in the flat tensor
    int64_t begin = 0;   // where this rank's elements begin in the parameter
    int64_t length = 0;  // number of this rank's elements
  };

  std::vector<NamedParameter> parameters_;
  std::vector<Range> ranges_;  // by parameter
  int64_t part_ = 0;
  int64_t rank_;
  int64_t ranks_;
};

struct ShardedUnit {
  // Sets `pieces` to views of this rank's part of the values.
  void TakePieces(const at::Tensor& part);

  UnitLayout layout;
  at::Tensor flat = {};                 // the parameters' memory
  std::vector<at::Tensor> pieces = {};  // by parameter; the optimizer updates them
};

// One rank's part of a parameter, for its optimizer.
struct Shard {
  std::string name;
  at::Tensor values;  // 1-d, perhaps empty
  StatePlacement placement;
};
// Returns the shards in the order of the units and their parameters.
std::vector<Shard> ShardsOf(std::span<const ShardedUnit> units);

// Divides parameters into units: neighbours in the list, until one has `bytes` or the type changes.
std::vector<std::vector<NamedParameter>> UnitsOf(std::span<const NamedParameter> parameters,
                                                 int64_t bytes);

// Returns a zeroed flat tensor for collectives of the axis.
at::Tensor FlatOn(const Axis& axis, int64_t elements, const at::TensorOptions& options);

// Begins to gather all ranks' parts, one after the other, into `flat`, which may contain `own`.
// Returns nullptr if it is done, because this rank is alone.
c10::intrusive_ptr<c10d::Work> GatherParts(const Axis& axis,
                                           const at::Tensor& own,
                                           const at::Tensor& flat);

}  // namespace ddprun::trainer
