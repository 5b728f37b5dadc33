#include "trainer/job/frozen.h"

#include <algorithm>
#include <set>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/models/lora.h"
#include "trainer/optim/name_words.h"

namespace ddprun::trainer {

namespace {

Error NothingFits(const std::string& what, const Model& shape) {
  std::set<std::string> modules;  // without their numbers: 12 layers have equal names
  for (const auto& item : shape.named_parameters()) modules.insert(StarDigits(item.key()));
  return {.code = Code::kUsage,
          .title = "NOTHING TO FREEZE OR TO TRAIN",
          .where = "training.freeze",
          .what = what,
          .hint = "The parameters are " +
                  FormatList(std::vector<std::string>(modules.begin(), modules.end()), ", ") + ".",
          .page = "nothing-to-freeze"};
}

}  // namespace

void Freeze(Model& model, const std::vector<std::string>& words) {
  for (auto& item : model.named_parameters()) {
    if (HasAnyWord(item.key(), words)) item.value().set_requires_grad(false);
  }
}

void CheckFreeze(const Model& shape, const std::vector<std::string>& words) {
  const auto parameters = shape.named_parameters();
  for (const std::string& word : words) {
    const auto has_word = [&](const auto& item) { return HasAnyWord(item.key(), {word}); };
    if (std::ranges::any_of(parameters, has_word)) continue;
    throw Failure(NothingFits("No parameter has the word \"" + word + "\" in its name.", shape));
  }
  const auto trains = [&](const auto& item) {
    return item.value().requires_grad() && !HasAnyWord(item.key(), words);
  };
  if (std::ranges::any_of(parameters, trains)) return;
  throw Failure(
      NothingFits("These words freeze all parameters, so that nothing is trained.", shape));
}

}  // namespace ddprun::trainer
