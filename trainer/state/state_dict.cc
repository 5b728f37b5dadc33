#include "trainer/state/state_dict.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

namespace ddprun::trainer {

namespace {

constexpr size_t kMostNamed = 5;  // differences of one kind that a message names

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

// Returns a line such as "Missing (2): a, b".
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

}  // namespace ddprun::trainer

namespace ddprun {

void StateVisitor::Section(std::string prefix, std::optional<RankPart> own, RankPart replicas) {
  prefix_ = std::move(prefix);
  own_ = own;
  replicas_ = replicas;
}

void StateVisitor::Tensor(const std::string& name,
                          const at::Tensor& tensor,
                          const StatePlacement& placement) {
  const StateTensor named{.name = prefix_ + name, .tensor = tensor.detach(), .replicas = replicas_};
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
  if (own_) entry.ranks = own_->size;
  if (entry.ranks > 1) entry.tensor = entry.tensor.unsqueeze(0);
  entry.global_shape = entry.tensor.sizes().vec();
  entry.offset.resize(entry.global_shape.size());
  if (entry.ranks > 1) {
    entry.global_shape[0] = entry.ranks;
    entry.offset[0] = own_->rank;
    if (replicas_.size == 0) entry.replicas = {.rank = 0, .size = 1};
  }
  VisitTensor(std::move(entry));
}

}  // namespace ddprun

namespace ddprun::trainer {

StateDict SaveState(const VisitState& owners) {
  StateSaver saver;
  owners(saver);
  return saver.TakeState();
}

}  // namespace ddprun::trainer
