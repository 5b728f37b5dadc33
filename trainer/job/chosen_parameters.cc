#include "trainer/job/chosen_parameters.h"

#include <algorithm>
#include <set>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/config/parameter_factors.h"
#include "trainer/models/lora.h"
#include "trainer/optim/name_words.h"

namespace ddprun::trainer {

namespace {

// Returns "The parameters are layers.*.weight, ...", without their numbers: 12 layers have equal
// names.
std::string NamesOf(const Model& shape) {
  std::set<std::string> names;
  for (const auto& item : shape.named_parameters()) names.insert(StarDigits(item.key()));
  return "The parameters are " +
         FormatList(std::vector<std::string>(names.begin(), names.end()), ", ") + ".";
}

Error NothingFits(const std::string& what, const Model& shape) {
  return {.code = Code::kUsage,
          .title = "NOTHING TO FREEZE OR TO TRAIN",
          .where = "training.freeze",
          .what = what,
          .hint = NamesOf(shape),
          .page = "nothing-to-freeze"};
}

// Models of the user's own may be so.
Error NothingTrains() {
  return {.code = Code::kUsage,
          .title = "NOTHING TO TRAIN",
          .where = "model.path",
          .what = "The model has no parameter that requires a gradient.",
          .hint =
              "Save a TorchScript module before torch.jit.freeze, which turns its parameters "
              "into constants.",
          .page = "nothing-to-train"};
}

bool IsOfNoParameter(const std::string& word, const Model& shape) {
  return std::ranges::none_of(shape.named_parameters(),
                              [&](const auto& item) { return HasAnyWord(item.key(), {word}); });
}

std::string NoParameterHas(const std::string& word) {
  return "No parameter has the word \"" + word + "\" in its name.";
}

}  // namespace

void Freeze(Model& model, const std::vector<std::string>& words) {
  for (auto& item : model.named_parameters()) {
    if (HasAnyWord(item.key(), words)) item.value().set_requires_grad(false);
  }
}

void CheckFreeze(const Model& shape, const std::vector<std::string>& words) {
  const auto parameters = shape.named_parameters();
  if (std::ranges::none_of(parameters,
                           [](const auto& item) { return item.value().requires_grad(); })) {
    throw Failure(NothingTrains());
  }
  const auto unknown = std::ranges::find_if(
      words, [&](const std::string& word) { return IsOfNoParameter(word, shape); });
  if (unknown != words.end()) throw Failure(NothingFits(NoParameterHas(*unknown), shape));
  const auto trains = [&](const auto& item) {
    return item.value().requires_grad() && !HasAnyWord(item.key(), words);
  };
  if (std::ranges::any_of(parameters, trains)) return;
  throw Failure(
      NothingFits("These words freeze all parameters, so that nothing is trained.", shape));
}

void CheckParameterFactors(const Model& shape, const OptimizerConfig& config) {
  const auto check = [&](const char* key, const JsonText& factors) {
    for (const ParameterFactor& one : ParameterFactorsOf(factors)) {
      if (!IsOfNoParameter(one.word, shape)) continue;
      throw Failure(Error{.code = Code::kUsage,
                          .title = "NO SUCH PARAMETER",
                          .where = key,
                          .what = NoParameterHas(one.word),
                          .hint = NamesOf(shape),
                          .page = "no-such-parameter"});
    }
  };
  check("optimizer.learning_rate_factors", config.learning_rate_factors);
  check("optimizer.weight_decay_factors", config.weight_decay_factors);
}

}  // namespace ddprun::trainer
