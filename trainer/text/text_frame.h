// The tokens that a tokenizer's own settings put around a text. LibTorch-free.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trainer/text/tokenizer_files.h"

namespace ddprun::trainer {

// As the vocabulary spells them.
struct TextFrame {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

// What a post_processor of tokenizer.json puts around a single text; null: nothing. `file` is for
// messages. Throws Failure: it is of no known type. Throws nlohmann::json::exception: a part of it
// is missing or of another kind.
TextFrame ReadPostProcessor(const std::filesystem::path& file, const nlohmann::json& section);

// By add_bos_token and add_eos_token, with what counts where the first is not given.
TextFrame FrameOf(const TokenizerConfig& config, bool add_bos_otherwise);

}  // namespace ddprun::trainer
