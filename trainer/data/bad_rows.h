// Counts or refuses rows of a file that cannot be used. LibTorch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::trainer {

// Not thread-safe.
class BadRows {
 public:
  // `skip`: true counts bad rows; false throws at the first one.
  explicit BadRows(bool skip) : skip_(skip) {}

  // Records an unreadable row. `found` is a sentence. Throws Failure unless rows are skipped.
  void Add(const std::string& file, int64_t line, const std::string& found);
  // Counts a row that is left out on purpose, such as one without a label.
  void AddUnlabelled() { ++unlabelled_; }

  // Returns what was left out, a line for each kind, to show at the start of a run.
  std::vector<std::string> Notes() const;
  int64_t skipped() const { return skipped_; }

 private:
  const bool skip_;
  int64_t skipped_ = 0;
  int64_t unlabelled_ = 0;
  std::string first_;  // the place of the first skipped row, and its problem
};

}  // namespace ddprun::trainer
