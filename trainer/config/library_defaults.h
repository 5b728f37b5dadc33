// Defaults that other libraries have otherwise: who writes "adam" and a learning rate, as in a
// script for PyTorch, gets another training. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trainer/config/config.h"

namespace ddprun::trainer {

// What a key is where nobody says it, as JSON or in words; empty: nothing like it.
struct LibraryDefault {
  std::string_view path;
  std::string_view pytorch;       // torch.optim and a plain loop
  std::string_view transformers;  // TrainingArguments
};

std::span<const LibraryDefault> LibraryDefaults();

// One line with the keys of optimizer and learning rate that `config`, which names an optimizer of
// PyTorch, leaves at a default which PyTorch has otherwise, and PyTorch's in brackets; "" for none.
std::string UnlikePyTorch(const Config& config);

}  // namespace ddprun::trainer
