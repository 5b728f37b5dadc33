#include "trainer/job/frozen.h"

#include <algorithm>
#include <set>

#include "base/failure.h"
#include "base/text.h"
#include "trainer/optim/name_words.h"

namespace ddprun::trainer {

namespace {

Error NothingFits(const std::string& what, const Model& shape) {
  std::set<std::string> modules;  // without their numbers: 12 layers have equal names
  for (const auto& item : shape.named_parameters()) {
    std::string name;
    for (const char c : item.key()) name += c >= '0' && c <= '9' ? '*' : c;
    modules.insert(name);
  }
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
  const auto has = [&](const std::vector<std::string>& some, bool wanted) {
    return std::ranges::any_of(
        parameters, [&](const auto& item) { return HasAnyWord(item.key(), some) == wanted; });
  };
  for (const std::string& word : words) {
    if (has({word}, true)) continue;
    throw Failure(NothingFits("No parameter has the word \"" + word + "\" in its name.", shape));
  }
  if (has(words, false)) return;
  throw Failure(
      NothingFits("These words freeze all parameters, so that nothing is trained.", shape));
}

}  // namespace ddprun::trainer
