// state_hashes.jsonl: what every step did to gradients and weights, in a few bytes per tensor, so
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

// 64 bits that tell two contents apart; not cryptographic. As fast as memory is read.
uint64_t HashBytes(std::span<const std::byte> bytes);

inline constexpr const char* kStateHashesName = "state_hashes.jsonl";
// Of a tensor in the file. Half of the bits of its hash: the others would double the file.
inline constexpr size_t kHashDigits = 8;

// Rank 0's hashes of each step, and those of the ranks that differ from it.
class StateHashFile final : public Observer {
 public:
  // `warned` is told, once, that lines are being lost.
  StateHashFile(std::string path, Observer& warned) : path_(std::move(path)), warned_(warned) {}

  // Appends to the file, or makes it.
  void OnBegin(const RunHeader& header, ReportTime now) override;
  void OnStateHashes(const StateHashes& hashes, ReportTime now) override;

 private:
  const std::string path_;
  Observer& warned_;
  UniqueFd fd_;
  bool named_ = false;
  bool losing_ = false;
};

// What the file says.
struct HashedStep {
  std::shared_ptr<const std::vector<std::string>> names;  // of tensors: "gradient of fc.weight"
  int ranks = 0;
  std::string first = {};                  // rank 0's hashes, each of kHashDigits digits
  std::map<int, std::string> others = {};  // of the ranks that differ from rank 0

  const std::string& Of(int rank) const {
    const auto other = others.find(rank);
    return other == others.end() ? first : other->second;
  }
};
// By step. Lines that a crash cut short are passed over. Error: no file that can be read.
Result<std::map<int64_t, HashedStep>> ReadStateHashes(const std::string& path);

}  // namespace ddprun::trainer
