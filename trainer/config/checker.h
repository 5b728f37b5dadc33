// The checks behind CrossCheck, by section; only this folder's check_*.cc and cross_check.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trainer/config/config.h"
#include "trainer/config/diagnostic.h"
#include "trainer/config/entries.h"

namespace ddprun::trainer {

class Checker {
 public:
  Checker(const Entries& entries, const Config& config, Problems* problems)
      : entries_(entries), config_(config), problems_(problems) {}

  void CheckRequired();
  void CheckScopes();
  void CheckFacts();
  void CheckModel();  // check_model.cc
  void CheckData();   // check_data.cc
  void CheckRun();    // check_training.cc
  void CheckScheduler();
  void CheckLoss();
  void CheckMetrics();
  void CheckCheckpoints();
  void CheckStrategy();
  void CheckDevices();
  void CheckPipeline();

 private:
  bool Given(std::string_view path) const { return entries_.Find(path) != nullptr; }
  // A key that `needed_for` cannot do without.
  void Missing(std::string_view path, std::string_view needed_for);
  void Conflict(std::string_view path, std::string found, std::string hint);
  // `word` is no `what`.
  void UnknownChoice(std::string_view path,
                     const std::string& word,
                     const std::string& what,
                     const std::string& accepted,
                     std::string hint);
  // A key that is a string where others have an enum: `word` must be one of `words`.
  void CheckWord(std::string_view path,
                 const std::string& word,
                 std::span<const std::string_view> words,
                 const std::string& what);
  void CheckTransformer();
  void CheckHeads();
  void CheckRopeScaling();  // check_rope_scaling.cc
  void CheckRandomData();   // check_data.cc
  void CheckCsvData();
  void CheckPairData();
  void CheckImageData();
  // A size of random data beside the layer's that it must fit.
  void CheckSize(std::string_view path, int64_t size, const char* which, int64_t layer_size);

  const Entries& entries_;
  const Config& config_;
  Problems* problems_;
};

// What no key can say alone: required keys, and keys that must fit each other. Pure.

// Fills the defaults that follow from other keys: see the comments in config.h.
void FillDerivedDefaults(const Entries& entries, Config* config);

// REQUIRES: every entry is in `config`, and FillDerivedDefaults was called.
void CrossCheck(const Entries& entries, const Config& config, Problems* problems);

}  // namespace ddprun::trainer
