// What has to survive a process for a run to go on as if nothing had happened: tensors by name,
// each with its place in the tensor of all ranks, and numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

struct StateTensor {
  std::string name;
  at::Tensor tensor = {};                  // this rank's part; the owner's own memory
  std::vector<int64_t> global_shape = {};  // of the whole
  std::vector<int64_t> offset = {};        // of the part in the whole
};

struct StateDict {
  std::vector<StateTensor> tensors;  // in the order in which their owners name them
  std::map<std::string, int64_t> numbers;

  // With memory of its own: the state of now, whatever its owners do later.
  StateDict Clone() const;
};

// Which of so many parts.
struct RankPart {
  int64_t rank = 0;
  int64_t size = 1;
};

// SEAM: whoever has state names it to a visitor, all of it and once: to be saved and to be loaded.
// Names are the parameters', never places in a list. What is made at first use has to be there when
// it is named, so a number goes before it that tells whether it is; loading changes that number.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // Stands before the names that follow. `part`: of size 1, all ranks have the same tensors, and
  // these are they; otherwise each rank has its own, stored as slices [rank, ...] of [size, ...].
  void Section(std::string prefix, RankPart part = {});
  void Tensor(const std::string& name, const at::Tensor& tensor);
  // The same on all ranks.
  void Number(const std::string& name, int64_t& number) { VisitNumber(prefix_ + name, number); }

 protected:
  virtual void VisitTensor(StateTensor tensor) = 0;
  virtual void VisitNumber(const std::string& name, int64_t& number) = 0;

 private:
  std::string prefix_;
  RankPart part_;
};

using VisitState = std::function<void(StateVisitor& visitor)>;

StateDict SaveState(const VisitState& owners);
// Copies `state` to its owners. Throws Failure (page "state-does-not-fit") with what is missing,
// unknown, or of other shape or type; then the owners have a part of it and must be made anew.
void LoadState(const StateDict& state, const VisitState& owners);

// What is wrong with tensors by name: all of them counted, some named.
struct StateDifferences {
  std::vector<std::string> missing = {};
  std::vector<std::string> unknown = {};
  std::vector<std::string> misfits = {};

  bool none() const { return missing.empty() && unknown.empty() && misfits.empty(); }
  // A line for each kind. `owner`: "the model", which does not know the unknown ones.
  std::string Text(std::string_view owner) const;
};

}  // namespace ddprun::trainer
