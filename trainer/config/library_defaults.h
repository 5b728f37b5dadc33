// Defaults that differ from other libraries' defaults: a user who sets only "adam" and a learning
// rate, as in a script for PyTorch, gets another training. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// A key's default in other libraries, as JSON or in words; "" means that there is no such key.
struct LibraryDefault {
  std::string_view path;
  std::string_view pytorch;       // torch.optim and a plain loop
  std::string_view transformers;  // TrainingArguments
};

std::span<const LibraryDefault> LibraryDefaults();

// Returns a line with the keys that have their default in `config` and another in PyTorch, which
// follows in brackets. "" means none, or that the config names no optimizer.
std::string UnlikePyTorch(const Config& config);

}  // namespace ddprun::trainer
