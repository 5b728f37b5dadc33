// Copies state in memory, and loads it into owners that have the same parts.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/failure.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Returns a copy of the state with memory of its own.
inline StateDict CopyOf(StateDict state) {
  for (StateTensor& tensor : state.tensors) tensor.tensor = tensor.tensor.clone();
  return state;
}

template <typename Owner>
VisitState NamesOf(Owner& owner) {
  return [&owner](StateVisitor& visitor) { owner.NameState(visitor); };
}

class StateLoader final : public StateVisitor {
 public:
  explicit StateLoader(const StateDict& state) : state_(state) {}

  StateDifferences Differences() && {
    for (const StateTensor& tensor : state_.tensors) AddIfUnknown(tensor.name);
    for (const auto& [name, number] : state_.numbers) AddIfUnknown(name);
    return std::move(differences_);
  }

 private:
  static bool SamePart(const StateTensor& a, const StateTensor& b) {
    return a.name == b.name && a.tensor.scalar_type() == b.tensor.scalar_type() &&
           a.tensor.sizes() == b.tensor.sizes() && a.global_shape == b.global_shape &&
           a.offset == b.offset && a.flat == b.flat;
  }
  static std::string Describe(const StateTensor& tensor) {
    return c10::str(tensor.tensor.scalar_type(), " ", at::IntArrayRef(tensor.global_shape));
  }

  void VisitTensor(StateTensor tensor) override {
    visited_.insert(tensor.name);
    const auto same = std::ranges::find_if(
        state_.tensors, [&](const StateTensor& saved) { return SamePart(saved, tensor); });
    if (same != state_.tensors.end()) {
      tensor.tensor.copy_(same->tensor);
      return;
    }
    const auto other = std::ranges::find(state_.tensors, tensor.name, &StateTensor::name);
    if (other == state_.tensors.end()) return differences_.missing.push_back(tensor.name);
    differences_.misfits.push_back(tensor.name + " is " + Describe(*other) + " there and " +
                                   Describe(tensor) + " here");
  }
  void VisitNumber(const std::string& name, int64_t& number) override {
    visited_.insert(name);
    const auto found = state_.numbers.find(name);
    if (found == state_.numbers.end()) return differences_.missing.push_back(name);
    number = found->second;
  }
  void AddIfUnknown(const std::string& name) {
    if (!visited_.contains(name)) differences_.unknown.push_back(name);
  }

  const StateDict& state_;
  std::set<std::string> visited_;
  StateDifferences differences_;
};

// Throws Failure, as Checkpoint::Load() does, if a tensor is missing, unknown or another part.
inline void LoadState(const StateDict& state, const VisitState& owners) {
  const at::NoGradGuard no_grad;
  StateLoader loader(state);
  owners(loader);
  const StateDifferences differences = std::move(loader).Differences();
  if (differences.none()) return;
  throw Failure(Error{.code = Code::kStateDoesNotFit,
                      .title = "STATE DOES NOT FIT",
                      .where = "loading the state of a run",
                      .what = differences.Text("this run"),
                      .hint = "",
                      .page = "state-does-not-fit"});
}

}  // namespace ddprun::trainer
