// COMMIT, the file that makes a folder a checkpoint: what each of its files has to be. Text:
//
//   ddprun checkpoint 2
//   step 1200
//   attempt f3a9
//   score 0.25
//   file 4096 0a1b2c3d index.json
//   file 52428800 9e8d7c6b shard-00000-of-00001.safetensors
//   end 5f6e7d8c
//
// Sizes in bytes, checksums CRC-32C; the last one is of the lines before it.
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

// `text` of the file `path`. Error: pages "newer-checkpoint", "broken-checkpoint".
Result<Commit> ParseCommit(std::string_view text, const std::string& path);

// Reads `folder`/COMMIT. Error: also pages "not-a-checkpoint", "unreadable-checkpoint".
Result<Commit> ReadCommit(const std::string& folder);

// "BROKEN CHECKPOINT": `file` of it is not what it was when it was committed.
Error BrokenCheckpoint(const std::string& file, const std::string& what);

// "CHECKPOINT CANNOT BE READ": nothing is known of what `file` holds.
Error UnreadableCheckpoint(const std::string& file, int error_number);

// Whether an errno says that there is no such file, rather than that it could not be read.
bool IsAbsence(int error_number);

// The whole of a small file; nullopt, with errno, when it cannot be read.
std::optional<std::string> ReadSmallFile(const std::string& path);

}  // namespace ddprun::trainer
