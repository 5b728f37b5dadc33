#include "trainer/parallel/whole_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>
#include <c10/util/accumulate.h>

#include <cstring>
#include <map>
#include <sstream>

#include "base/failure.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/state/placement.h"

namespace ddprun::trainer {

namespace {

// A tensor of which ranks have parts.
struct Whole {
  int dtype = 0;
  std::vector<int64_t> shape;
  int64_t elements = 0;  // elements of the parts, each counted once
};

Failure PartsDoNotFit(const std::string& name, const std::string& what) {
  return Failure(Error{.title = "PARTS DO NOT FIT",
                       .where = name,
                       .what = "\"" + name + "\" " + what,
                       .hint = "All ranks must build parts of the same model.",
                       .page = "parts-do-not-fit"});
}

// Returns whether this rank counts the part, because only one of the ranks that have it does.
bool Counts(const StateTensor& part, c10d::Backend* control) {
  if (part.replicas.size > 0) return part.replicas.rank == 0;
  return control == nullptr || control->getRank() == 0;
}

// Returns a line for each part: dtype, elements that count, dimensions, name.
std::string PartsText(const StateDict& state, std::string_view prefix, c10d::Backend* control) {
  std::ostringstream text;
  for (const StateTensor& part : state.tensors) {
    if (!part.name.starts_with(prefix)) continue;
    text << static_cast<int>(part.tensor.scalar_type()) << " "
         << (Counts(part, control) ? WithoutPadding(part).numel() : 0) << " "
         << part.global_shape.size();
    for (const int64_t size : part.global_shape) text << " " << size;
    text << " " << part.name << "\n";
  }
  return text.str();
}

// Returns all ranks' tensors, by name; equal on all ranks.
std::map<std::string, Whole> WholesOf(const StateDict& state,
                                      std::string_view prefix,
                                      c10d::Backend* control) {
  std::map<std::string, Whole> wholes;
  for (const std::string& text : ExchangeTexts(control, PartsText(state, prefix, control))) {
    std::istringstream in(text);
    Whole part;
    size_t dims = 0;
    while (in >> part.dtype >> part.elements >> dims) {
      part.shape.resize(dims);
      for (int64_t& size : part.shape) in >> size;
      std::string name;
      std::getline(in.ignore(), name);
      const auto [known, added] = wholes.try_emplace(name, part);
      if (added) continue;
      if (known->second.dtype != part.dtype || known->second.shape != part.shape) {
        throw PartsDoNotFit(name, "has different types or shapes on two ranks.");
      }
      known->second.elements += part.elements;
    }
  }
  return wholes;
}

std::map<std::string, std::vector<StateTensor>> ByName(const StateDict& state) {
  std::map<std::string, std::vector<StateTensor>> parts;
  for (const StateTensor& part : state.tensors) parts[part.name].push_back(part);
  return parts;
}

}  // namespace

std::vector<std::string> ExchangeTexts(c10d::Backend* control, const std::string& own) {
  if (control == nullptr) return {own};
  const at::Tensor sizes = at::zeros({control->getSize()}, at::kLong);
  sizes[control->getRank()] = static_cast<int64_t>(own.size());
  AllReduceOnHost(control, sizes);
  const int64_t longest = sizes.max().item<int64_t>();
  if (longest == 0) return std::vector<std::string>(static_cast<size_t>(control->getSize()));
  const at::Tensor bytes = at::zeros({control->getSize(), longest}, at::kByte);
  std::memcpy(bytes[control->getRank()].mutable_data_ptr(), own.data(), own.size());
  AllReduceOnHost(control, bytes);
  std::vector<std::string> texts;
  for (int rank = 0; rank < control->getSize(); ++rank) {
    texts.emplace_back(static_cast<const char*>(bytes[rank].const_data_ptr()),
                       static_cast<size_t>(sizes[rank].item<int64_t>()));
  }
  return texts;
}

void GatherWhole(const StateDict& state,
                 std::string_view prefix,
                 c10d::Backend* control,
                 const TakeTensor& take) {
  const at::NoGradGuard no_grad;
  const auto parts = ByName(state);
  for (const auto& [name, whole] : WholesOf(state, prefix, control)) {
    const auto dtype = static_cast<at::ScalarType>(whole.dtype);
    const int64_t elements = c10::multiply_integers(whole.shape);
    if (whole.elements != elements) {
      throw PartsDoNotFit(name, "has " + std::to_string(elements) +
                                    " elements, but all ranks' parts "
                                    "of it have " +
                                    std::to_string(whole.elements) + ".");
    }
    // Sums the bytes as integers, because a sum in which all but one summand are 0 keeps every bit.
    constexpr int64_t kWord = sizeof(int64_t);
    const auto size = static_cast<int64_t>(c10::elementSize(dtype));
    const at::Tensor words = at::zeros({(elements * size + kWord - 1) / kWord}, at::kLong);
    const at::Tensor tensor = at::from_blob(words.mutable_data_ptr(), whole.shape, dtype);
    if (const auto own = parts.find(name); own != parts.end()) {
      for (const StateTensor& part : own->second) {
        if (Counts(part, control)) PartOfWhole(tensor, part).copy_(WithoutPadding(part));
      }
    }
    if (elements > 0) AllReduceOnHost(control, words);
    if (control == nullptr || control->getRank() == 0) take(name, tensor);
  }
}

void DistributeWhole(const StateDict& state, c10d::Backend* control, const GiveTensor& give) {
  const at::NoGradGuard no_grad;
  const auto parts = ByName(state);
  for (const auto& [name, whole] : WholesOf(state, "", control)) {
    const auto dtype = static_cast<at::ScalarType>(whole.dtype);
    at::Tensor tensor;
    if (control == nullptr || control->getRank() == 0) {
      tensor = give(name).detach().cpu().contiguous();
      if (tensor.scalar_type() != dtype || tensor.sizes() != at::IntArrayRef(whole.shape)) {
        throw PartsDoNotFit(name, c10::str("is ", tensor.scalar_type(), " ", tensor.sizes(),
                                           " as a whole, and parts of ", dtype, " ",
                                           at::IntArrayRef(whole.shape), " are wanted."));
      }
    } else {
      tensor = at::empty(whole.shape, dtype);
    }
    if (control != nullptr && tensor.numel() > 0) {
      std::vector<at::Tensor> all = {tensor.view(-1)};
      control->broadcast(all, c10d::BroadcastOptions{})->wait();
    }
    if (const auto own = parts.find(name); own != parts.end()) {
      for (const StateTensor& part : own->second)
        WithoutPadding(part).copy_(PartOfWhole(tensor, part));
    }
  }
}

}  // namespace ddprun::trainer
