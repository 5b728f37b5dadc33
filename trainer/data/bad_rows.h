// What happens to rows of a file that cannot be used. LibTorch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

// Not thread-safe.
class BadRows {
 public:
  // `skip`: bad rows are counted; else the first one throws.
  explicit BadRows(bool skip) : skip_(skip) {}

  // A row that cannot be read. `found` is a sentence. Throws Failure unless rows are skipped.
  void Add(const std::string& file, int64_t line, const std::string& found);
  // A row that is left out on purpose, as one without a label.
  void AddUnlabelled() { ++unlabelled_; }

  // What was left out, a line for each kind; for the start of a run.
  std::vector<std::string> Notes() const;
  int64_t skipped() const { return skipped_; }

 private:
  const bool skip_;
  int64_t skipped_ = 0;
  int64_t unlabelled_ = 0;
  std::string first_;  // where the first skipped row stands and what is wrong with it
};

}  // namespace ddprun::trainer
