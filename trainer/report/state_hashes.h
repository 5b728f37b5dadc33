// state_hashes.jsonl: hashes of gradients and weights in every step, a few bytes per tensor, so
// that two runs, or two ranks of one, can be compared afterwards (compare_runs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "trainer/report/observer.h"

namespace ddprun::trainer {

// Returns 64 bits, which differ for different contents; not cryptographic. As fast as memory.
uint64_t HashBytes(std::span<const std::byte> bytes);

inline constexpr const char* kStateHashesName = "state_hashes.jsonl";
// Digits of a tensor's hash in the file: half of its bits, because all would double the file.
inline constexpr size_t kHashDigits = 8;

// Writes rank 0's hashes of each step, and the hashes of ranks that differ from it.
class StateHashFile final : public Observer {
 public:
  // `warned` gets a note, once, if lines are lost.
  StateHashFile(std::string path, Observer& warned) : path_(std::move(path)), warned_(warned) {}

  // Opens the file to append to it, or creates it.
  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStateHashes(const StateHashes& hashes, ReportTime now) override;

 private:
  const std::string path_;
  Observer& warned_;
  UniqueFd fd_;
  bool has_names_ = false;
  bool has_warned_ = false;
};

// The hashes of one step in the file.
struct HashedStep {
  std::shared_ptr<const std::vector<std::string>> names;  // of tensors: "gradient of fc.weight"
  int ranks = 0;
  std::string first = {};                  // rank 0's hashes, kHashDigits digits each
  std::map<int, std::string> others = {};  // of the ranks that differ from rank 0

  const std::string& Of(int rank) const {
    const auto other = others.find(rank);
    return other == others.end() ? first : other->second;
  }
};
// Reads the hashes by step. Skips lines that a crash has cut off. Error: there is no readable file.
Result<std::map<int64_t, HashedStep>> ReadStateHashes(const std::string& path);

}  // namespace ddprun::trainer
