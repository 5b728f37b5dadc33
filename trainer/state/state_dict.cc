#include "trainer/state/state_dict.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/failure.h"
#include "trainer/state/placement.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kMostNamed = 5;  // differences of one kind that a message names

bool IsWhole(const StateTensor& tensor) {
  return tensor.tensor.sizes() == at::IntArrayRef(tensor.global_shape) &&
         std::ranges::all_of(tensor.offset, [](int64_t offset) { return offset == 0; });
}

std::string Describe(const StateTensor& tensor) {
  const auto text = [](const std::vector<int64_t>& numbers) {
    return c10::str(at::IntArrayRef(numbers));
  };
  std::string description = c10::str(tensor.tensor.scalar_type(), " ", text(tensor.global_shape));
  if (!IsWhole(tensor)) {
    description += (tensor.flat ? ", flattened, " : ", ") + text(tensor.tensor.sizes().vec()) +
                   " from " + text(tensor.offset);
  }
  return description;
}

class StateSaver final : public StateVisitor {
 public:
  StateDict TakeState() { return std::move(state_); }

 private:
  void VisitTensor(StateTensor tensor) override { state_.tensors.push_back(std::move(tensor)); }
  void VisitNumber(const std::string& name, int64_t& number) override {
    state_.numbers[name] = number;
  }

  StateDict state_;
};

class StateLoader final : public StateVisitor {
 public:
  explicit StateLoader(const StateDict& state) : state_(state) {
    for (const StateTensor& tensor : state.tensors) by_name_[tensor.name].push_back(&tensor);
  }

  StateDifferences Differences() && {
    for (const StateTensor& tensor : state_.tensors) {
      if (!visited_.contains(tensor.name)) differences_.unknown.push_back(tensor.name);
    }
    for (const auto& [name, number] : state_.numbers) {
      if (!visited_.contains(name)) differences_.unknown.push_back(name);
    }
    return std::move(differences_);
  }

 private:
  void VisitTensor(StateTensor tensor) override {
    visited_.insert(tensor.name);
    const auto found = by_name_.find(tensor.name);
    if (found == by_name_.end()) return differences_.missing.push_back(tensor.name);
    const std::string wanted = Describe(tensor);
    for (const StateTensor* saved : found->second) {
      if (Describe(*saved) == wanted) {
        tensor.tensor.copy_(saved->tensor);
        return;
      }
      if (IsWhole(*saved) && saved->global_shape == tensor.global_shape &&
          saved->tensor.scalar_type() == tensor.tensor.scalar_type()) {
        WithinWhole(tensor).copy_(SameIn(saved->tensor.contiguous(), tensor));
        return;
      }
    }
    differences_.misfits.push_back(tensor.name + " is " + Describe(*found->second.front()) +
                                   " there and " + wanted + " here");
  }
  void VisitNumber(const std::string& name, int64_t& number) override {
    visited_.insert(name);
    const auto found = state_.numbers.find(name);
    if (found == state_.numbers.end()) return differences_.missing.push_back(name);
    number = found->second;
  }

  const StateDict& state_;
  std::map<std::string, std::vector<const StateTensor*>> by_name_;
  std::set<std::string> visited_;
  StateDifferences differences_;
};

// "Missing (2): a, b\n"
std::string ListOf(const std::string& kind, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = kind + " (" + std::to_string(names.size()) + "): ";
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return text + (names.size() > kMostNamed ? ", ...\n" : "\n");
}

}  // namespace

std::string StateDifferences::Text(std::string_view owner) const {
  return ListOf("Missing", missing) + ListOf("Not in " + std::string(owner), unknown) +
         ListOf("Of another shape or type", misfits);
}

StateDict StateDict::Clone() const {
  StateDict copy = *this;
  for (StateTensor& tensor : copy.tensors) tensor.tensor = tensor.tensor.clone();
  return copy;
}

void StateVisitor::Section(std::string prefix, RankPart part, RankPart replicas) {
  prefix_ = std::move(prefix);
  part_ = part;
  replicas_ = replicas;
}

void StateVisitor::Tensor(const std::string& name,
                          const at::Tensor& tensor,
                          const StatePlacement& placement) {
  const StateTensor named{
      .name = prefix_ + name, .tensor = tensor.detach(), .replicas = replicas_};
  for (const StatePart& part : placement) {
    StateTensor entry = named;
    if (!part.view.empty()) {
      const int64_t elements = c10::multiply_integers(part.view);
      entry.tensor = entry.tensor.narrow(0, part.skip, elements).view(part.view);
    }
    if (part.length >= 0) {
      entry.tensor = entry.tensor.narrow(part.dimension, part.begin, part.length);
    }
    const bool whole = part.slice.global_shape.empty() && !part.slice.flat;
    entry.global_shape = whole ? entry.tensor.sizes().vec() : part.slice.global_shape;
    entry.offset = whole ? std::vector<int64_t>(entry.global_shape.size()) : part.slice.offset;
    entry.flat = part.slice.flat;
    entry.replicas.rank = replicas_.rank * part.copies.size + part.copies.rank;
    entry.replicas.size = replicas_.size * part.copies.size;
    VisitTensor(std::move(entry));
  }
  if (!placement.empty()) return;
  StateTensor entry = named;
  if (part_.size > 1) entry.tensor = entry.tensor.unsqueeze(0);
  entry.global_shape = entry.tensor.sizes().vec();
  entry.offset.resize(entry.global_shape.size());
  if (part_.size > 1) {
    entry.global_shape[0] = part_.size;
    entry.offset[0] = part_.rank;
    if (replicas_.size == 0) entry.replicas = {.rank = 0, .size = 1};
  }
  VisitTensor(std::move(entry));
}

StateDict SaveState(const VisitState& owners) {
  StateSaver saver;
  owners(saver);
  return saver.TakeState();
}

void LoadState(const StateDict& state, const VisitState& owners) {
  const at::NoGradGuard no_grad;
  StateLoader loader(state);
  owners(loader);
  const StateDifferences differences = std::move(loader).Differences();
  if (differences.none()) return;
  throw Failure(Error{.code = Code::kUsage,
                      .title = "STATE DOES NOT FIT",
                      .where = "loading the state of a run",
                      .what = "The state is that of another run.\n" + differences.Text("this run"),
                      .hint = "Go on with the model, the optimizer, the strategy and the number of "
                              "ranks that the state was saved with.",
                      .page = "state-does-not-fit"});
}

}  // namespace ddprun::trainer
