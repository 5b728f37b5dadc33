// A checkpoint on the disk: a folder of safetensors shards, index.json and COMMIT that is there
// whole or not at all (docs/checkpoints.md). Knows no loop, config or process group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/state/safetensors.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// A part of a tensor, and where it lies.
struct CheckpointPiece {
  std::string file = {};        // of the folder
  std::string name = {};        // in that file
  std::vector<int64_t> offset;  // in the whole tensor
  std::vector<int64_t> shape;
  bool flat = false;  // of StateSlice
};

struct CheckpointTensor {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::vector<CheckpointPiece> pieces;  // together the whole, no element in two
};

// State of one rank, or of all.
struct TensorTable {
  std::map<std::string, CheckpointTensor> tensors = {};
  // Names of tensors that are stored under another name, because they are the same memory (tied).
  std::map<std::string, std::string> aliases = {};
  std::map<std::string, int64_t> numbers = {};
};

struct Commit;

// What Open() looks at besides COMMIT and index.json.
enum class Verify {
  kChecksums,  // every byte of the shards
  kSizes,      // where CheckBytes() follows
};

// Whether an error of Open() or CheckBytes() says that the files are not what was committed. Any
// other says that they could not be read, which may pass: nothing is known of what they hold.
bool IsDamage(const Error& error);

// Open for reading. Immutable: any thread. Only the bytes asked for are read.
class Checkpoint {
 public:
  // Error: not committed, of a newer version, or damaged (pages "not-a-checkpoint",
  // "newer-checkpoint", "broken-checkpoint", "broken-weights"); names the file and what is wrong
  // with it. Or it cannot be read ("unreadable-checkpoint", "unreadable-weights").
  static Result<Checkpoint> Open(const std::string& folder, Verify verify = Verify::kChecksums);

  // Compares the bytes of the shards with their checksums: those that are this part's of them, so
  // that several processes share out the work. Error: as of Open().
  Status CheckBytes(RankPart part = {}) const;

  const std::string& path() const { return path_; }
  int64_t step() const { return step_; }
  // Of SaveRequest: how good the model was.
  std::optional<double> score() const { return score_; }
  // Of SaveRequest: the text of a JSON object, the saver's own; its layout may have changed.
  const std::string& run() const { return run_; }
  const std::map<std::string, int64_t>& numbers() const { return table_.numbers; }
  const std::map<std::string, CheckpointTensor>& tensors() const { return table_.tensors; }
  const std::map<std::string, std::string>& aliases() const { return table_.aliases; }
  // Of all files.
  int64_t bytes() const { return bytes_; }

  // The whole tensor, also by an alias. Throws Failure where there is none of that name, or where
  // reading fails; so do all below.
  at::Tensor Read(const std::string& name) const;
  // What of it lies where the part does, which may be on any device and of any layout. Padding
  // (rows beyond the whole) stays as it is.
  void ReadInto(const StateTensor& part) const;

  // Gives what each of several ranks says to all of them, by rank: a collective.
  using Exchange = std::function<std::vector<std::string>(const std::string& own)>;
  // To the owners, whatever the layout was: each gets the parts that it names. `exchange`: among
  // the ranks that load the state together, where each may name some of it. Throws Failure
  // (Code::kStateDoesNotFit) with what is missing, unknown to all, or of other shape or type, on
  // all ranks alike; then the owners have a part of the state and must be made anew.
  void Load(const VisitState& owners, const Exchange& exchange = {}) const;

 private:
  Checkpoint() = default;

  const CheckpointTensor* Find(const std::string& name) const;
  friend class CheckpointLoader;

  std::string path_;
  int64_t step_ = 0;
  std::optional<double> score_;
  std::string run_;
  TensorTable table_;
  int64_t bytes_ = 0;
  std::shared_ptr<const Commit> commit_;
  std::map<std::string, SafetensorsFile> shards_;  // by file name
};

}  // namespace ddprun::trainer
