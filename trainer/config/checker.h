// Checks the config as a whole: required keys, and keys that must fit each other. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "trainer/config/config.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/entries.h"

namespace ddprun::trainer {

// The config as a check sees it, and the errors that it can report.
class Checker {
 public:
  Checker(const Entries& written, const Config& with_defaults, Problems* problems)
      : entries(written), config(with_defaults), problems_(problems) {}

  const Entries& entries;  // the keys that the user has written
  const Config& config;    // with all defaults

  bool Given(std::string_view path) const { return entries.Find(path) != nullptr; }
  // Reports that `needed_for` requires the key.
  void Missing(std::string_view path, std::string_view needed_for);
  void Conflict(std::string_view path, std::string found, std::string hint);
  // Reports that `word` is no `what`.
  void UnknownChoice(std::string_view path,
                     const std::string& word,
                     const std::string& what,
                     const std::string& accepted,
                     std::string hint);
  // Checks a key that is a string where others have an enum: `word` must be one of `words`.
  void CheckWord(std::string_view path,
                 const std::string& word,
                 std::span<const std::string_view> words,
                 const std::string& what);

 private:
  Problems* problems_;
};

// Each reports the problems of one part of the config.
void CheckModel(Checker& check);
void CheckLora(Checker& check);
void CheckRopeScaling(Checker& check);
void CheckData(Checker& check);
void CheckRun(Checker& check);
void CheckOptimizer(Checker& check);
void CheckParameterFactors(Checker& check);
void CheckScheduler(Checker& check);
void CheckLoss(Checker& check);
void CheckMetrics(Checker& check);
void CheckCheckpoints(Checker& check);
void CheckStrategy(Checker& check);

// Fills the defaults that follow from other keys, as the comments of their fields say.
void FillDerivedDefaults(const Entries& entries, Config* config);

// Calls all checks. REQUIRES: every entry is in `config`, and FillDerivedDefaults was called.
void CrossCheck(const Entries& entries, const Config& config, Problems* problems);

}  // namespace ddprun::trainer
