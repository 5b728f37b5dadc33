// State that can be saved, changed and compared; a folder that goes away.
#pragma once

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/saver.h"

namespace ddprun::trainer {

namespace fs = std::filesystem;

class CheckpointFolder {
 public:
  CheckpointFolder() {
    std::string pattern = (fs::temp_directory_path() / "ddprun-checkpoint-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~CheckpointFolder() { fs::remove_all(path_); }
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  std::string path_;
};

inline std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void WriteAllOf(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// The state of a small run: several types, a scalar, a strided and a tied tensor. All values depend
// on `step`.
struct SmallState {
  explicit SmallState(int64_t step) : number(step) {
    const auto values = [&](at::IntArrayRef sizes, at::ScalarType dtype) {
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      return at::arange(step, step + count, at::kDouble).reshape(sizes).to(dtype);
    };
    weight = values({5, 3}, at::kFloat);
    half = values({7}, at::kBFloat16);
    scalar = values({}, at::kDouble);
    strided = values({4, 6}, at::kFloat).t();
    mask = values({3}, at::kLong).remainder(2).to(at::kBool);
    empty = at::empty({0, 4});
  }

  void Name(StateVisitor& visitor) {
    visitor.Section("model.");
    visitor.Tensor("weight", weight);
    visitor.Tensor("half", half);
    visitor.Tensor("tied", weight);
    visitor.Tensor("strided", strided);
    visitor.Tensor("mask", mask);
    visitor.Tensor("empty", empty);
    visitor.Section("optimizer.");
    visitor.Tensor("scalar", scalar);
    visitor.Number("step", number);
  }
  VisitState Owners() {
    return [this](StateVisitor& visitor) { Name(visitor); };
  }
  StateDict Dict() { return SaveState(Owners()); }
  bool operator==(const SmallState& other) const {
    return at::equal(weight, other.weight) && at::equal(half, other.half) &&
           at::equal(scalar, other.scalar) && at::equal(strided, other.strided) &&
           at::equal(mask, other.mask) && number == other.number;
  }

  at::Tensor weight, half, scalar, strided, mask, empty;
  int64_t number;
};

// Saves as the only rank. Returns the error's text, or "".
inline SaveOutcome SaveSmall(const std::string& folder,
                             int64_t step,
                             const std::string& attempt = "a",
                             const Retention& retention = {}) {
  return SaveCheckpoint({.folder = folder, .retention = retention}, SmallState(step).Dict(),
                        {.step = step, .attempt = attempt});
}

// Returns whether a checkpoint has the small state of its step.
inline bool HasSmallState(const Checkpoint& checkpoint) {
  SmallState loaded(-1);
  checkpoint.Load(loaded.Owners());
  return loaded == SmallState(checkpoint.step());
}

inline std::string ThrownText(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.error().what;
  }
  return "nothing was thrown";
}

}  // namespace ddprun::trainer
