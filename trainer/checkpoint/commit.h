// COMMIT, the file that makes a folder a checkpoint: it describes each of its files. Text:
//
//   ddprun checkpoint 2
//   step 1200
//   attempt f3a9
//   score 0.25
//   file 4096 0a1b2c3d index.json
//   file 52428800 9e8d7c6b shard-00000-of-00001.safetensors
//   end 5f6e7d8c
//
// Sizes in bytes, checksums CRC-32C. The last checksum is that of the lines before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

constexpr int64_t kCheckpointFormat = 2;  // 1 had no flat pieces
constexpr const char* kCommitFile = "COMMIT";
constexpr const char* kIndexFile = "index.json";

struct FileSum {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

struct Commit {
  int64_t step = 0;
  std::string attempt;
  std::optional<double> score = {};
  std::vector<FileSum> files = {};
};

std::string CommitText(const Commit& commit);

// Parses the `text` of the file `path`. Error: pages "newer-checkpoint", "broken-checkpoint".
Result<Commit> ParseCommit(std::string_view text, const std::string& path);

// Reads `folder`/COMMIT. Error: also pages "not-a-checkpoint", "unreadable-checkpoint".
Result<Commit> ReadCommit(const std::string& folder);

// Returns the error "BROKEN CHECKPOINT": `file` differs from what was committed.
Error BrokenCheckpoint(const std::string& file, const std::string& what);

// Returns the error "CHECKPOINT CANNOT BE READ": the contents of `file` are unknown.
Error UnreadableCheckpoint(const std::string& file, int error_number);

// Returns whether an errno means that there is no such file, not that it could not be read.
bool IsMissingFile(int error_number);

// Reads a small file. Returns nullopt, and sets errno, if it cannot be read.
std::optional<std::string> ReadSmallFile(const std::string& path);

}  // namespace ddprun::trainer
