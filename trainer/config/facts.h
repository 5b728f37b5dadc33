// A table of settings: the facts that each setting makes true of a training step, and the facts
// that it excludes. Conflicts follow from the rows; no code names a pair of keys. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// The predicate of a sentence whose subject is a setting.
using Fact = std::string_view;

namespace fact {
inline constexpr Fact kOneProcess = "is one process";
inline constexpr Fact kDevices = "has several devices in one process";
inline constexpr Fact kLayerParts = "divides each layer";
inline constexpr Fact kStages = "divides the layers into stages";
inline constexpr Fact kOptimizerParts = "divides the optimizer's state";
inline constexpr Fact kSomeRanksShare = "divides state among some of the ranks";
inline constexpr Fact kGradientParts = "divides the gradients";
inline constexpr Fact kOwnState = "gives each rank state that no other rank has";
inline constexpr Fact kOwnBuffers = "gives each rank buffers of its own";
inline constexpr Fact kLocalSteps = "lets ranks update parameters on their own";
inline constexpr Fact kHookedGradients = "changes gradients before they are averaged";
inline constexpr Fact kWholeModelHook = "works on whole parameters";
inline constexpr Fact kErrorFeedback = "adds what it leaves out of a gradient to the next one";
inline constexpr Fact kEarlyUpdate = "updates parameters before all gradients are averaged";
inline constexpr Fact kUpdateInBackward = "updates parameters in the backward pass";
inline constexpr Fact kFiniteOnly = "ends the run if a gradient is not finite";
inline constexpr Fact kPartialGradients = "lets parameters be without a gradient";
inline constexpr Fact kChangingBuckets = "changes the size of buckets";
inline constexpr Fact kSentAfterBackward = "sends gradients after the backward pass";
inline constexpr Fact kRing = "passes sums from rank to rank";
inline constexpr Fact kOwnCode = "runs code of your own";
inline constexpr Fact kOwnBatches = "makes batches of its own";
inline constexpr Fact kUnsplitLayers = "has layers that ranks cannot divide";
inline constexpr Fact kHostDecides = "reads results of a step on the host";
inline constexpr Fact kChangesGradients = "changes averaged gradients before the update";
inline constexpr Fact kHostSeeds = "seeds random numbers on the host within a step";
inline constexpr Fact kFixedSums = "adds gradients in the order of virtual ranks";
inline constexpr Fact kHashes = "compares ranks after each update";
}  // namespace fact

struct Never {
  std::vector<Fact> facts;
  Fact because = {};  // the predicate of the setting that excludes them
};

struct Setting {
  std::string_view key;  // of the key table, or the name of a feature without a key
  std::vector<std::string_view> words = {};  // values with the facts; empty: all but `off`
  std::string_view off = {};                 // the value to set instead; empty: the default
  std::vector<Fact> makes = {};
  std::vector<Never> never = {};
  bool yields = false;  // true: excluded facts turn it off; false: the config is refused
  bool (*on)(const Config& config) = nullptr;  // instead of `words` and `off`
};

std::span<const Setting> AllSettings();

// A conflict of two keys: `maker` makes a fact that `refuser` excludes.
struct Conflict {
  std::string_view maker;
  std::string_view refuser;
  Fact fact;
  Fact because;
  std::string found;  // for a Diagnostic
  std::string hint;
};

// Returns the conflicts of a config, at most one for each pair of keys and each reason of a key.
std::vector<Conflict> ConflictsOf(const Config& config,
                                  std::span<const Setting> settings = AllSettings());

// Returns the first setting that makes one of the facts, as `strategy.overlap "step"`, or "".
std::string SettingThatMakes(const std::vector<Fact>& facts,
                             const Config& config,
                             std::span<const Setting> settings = AllSettings());

// Returns the first setting that makes a fact which `key` excludes, even if `key` is off, or "".
// `word`: which of the key's values excludes it; empty: any of them.
std::string ObstacleTo(std::string_view key,
                       const Config& config,
                       std::span<const Setting> settings = AllSettings(),
                       std::string_view word = {});

}  // namespace ddprun::trainer
