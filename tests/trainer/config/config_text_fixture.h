// Reads configs from text, for tests without files.
#pragma once

#include <string>
#include <vector>

#include <ddprun/error.h>
#include "trainer/config/read_config.h"

namespace ddprun::trainer {

// The smallest configs that are complete.
inline const char* const kGpt = R"({"model": {"type": "gpt"}, "data": {"train_files": "a"}})";
inline const char* const kMlp = R"({"model": {"type": "mlp", "layer_sizes": [10, 5]},
"data": {"format": "random", "num_samples": 8, "input_size": 10, "target_size": 5}})";

struct Reading {
  std::string text;
  std::vector<std::string> overrides = {};
  Environment environment = {};
};

inline Result<Config> Read(const Reading& reading) {
  const Source source{Source::Kind::kFile, "train.json", reading.text};
  const ReadContext context{reading.environment, "/configs", "/work"};
  return ReadConfigText(source, reading.overrides, context);
}

// Returns the error as the user sees it; "" means no error.
inline std::string Complaint(const Reading& reading) {
  const Result<Config> config = Read(reading);
  return config.has_value() ? "" : "\n" + Render(config.error());
}

// The complaint without title bar and page: what tells two errors of a kind apart.
inline std::string ComplaintBody(const Reading& reading) {
  const Result<Config> config = Read(reading);
  if (config.has_value()) return "";
  const Error& error = config.error();
  return "\n" + error.what + "\n" + (error.hint.empty() ? "" : error.hint + "\n");
}

}  // namespace ddprun::trainer
