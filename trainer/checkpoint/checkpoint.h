// A checkpoint on the disk: a folder with safetensors shards, index.json and COMMIT, which exists
// completely or not at all (docs/checkpoints.md). Independent of loop, config and process group.
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

// A part of a tensor, and where it is stored.
struct CheckpointPiece {
  std::string file = {};        // in the folder
  std::string name = {};        // in `file`
  std::vector<int64_t> offset;  // in the whole tensor
  std::vector<int64_t> shape;
  bool flat = false;  // see StateSlice
};

struct CheckpointTensor {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::vector<CheckpointPiece> pieces;  // each element is in exactly one piece
};

// The state of one rank, or of all.
struct TensorTable {
  std::map<std::string, CheckpointTensor> tensors = {};
  // Maps names of tied tensors to the names under which their shared memory is stored.
  std::map<std::string, std::string> aliases = {};
  std::map<std::string, int64_t> numbers = {};
};

struct Commit;

// The checks of Open() besides those of COMMIT and index.json.
enum class Verify {
  kChecksums,  // every byte of the shards
  kSizes,      // only sizes, because CheckBytes() follows
};

// Returns whether an error of Open() or CheckBytes() means that the folder holds no checkpoint for
// this version, or a damaged one. Other errors mean that its contents are unknown, because the
// files could not be read, perhaps only for now.
bool IsDamage(const Error& error);

// A checkpoint that is open for reading. Immutable: any thread. Reads only the requested bytes.
class Checkpoint {
 public:
  // Opens a checkpoint. Error: it is not committed, has a newer version, or is damaged (pages
  // "not-a-checkpoint", "newer-checkpoint", "broken-checkpoint", "broken-weights"); names the file
  // and its fault. Or it cannot be read ("unreadable-checkpoint", "unreadable-weights").
  static Result<Checkpoint> Open(const std::string& folder, Verify verify = Verify::kChecksums);

  // Compares the bytes of the shards with their checksums. Checks only the share of `part`, so that
  // several processes can divide the work. Error: see Open().
  Status CheckBytes(RankPart part = {}) const;

  const std::string& path() const { return path_; }
  int64_t step() const { return step_; }
  // Returns the score of the SaveRequest: how good the model was.
  std::optional<double> score() const { return score_; }
  // Returns the `run` of the SaveRequest: the text of a JSON object, whose layout may have changed.
  const std::string& run() const { return run_; }
  const std::map<std::string, int64_t>& numbers() const { return table_.numbers; }
  const std::map<std::string, CheckpointTensor>& tensors() const { return table_.tensors; }
  const std::map<std::string, std::string>& aliases() const { return table_.aliases; }
  // Returns the bytes of all files.
  int64_t bytes() const { return bytes_; }

  // Returns the whole tensor; `name` may be an alias. This and all methods below throw Failure if
  // there is no such tensor, or if reading fails.
  at::Tensor Read(const std::string& name) const;
  // Reads the elements of `part`, which may be on any device and have any layout. Padding (rows
  // beyond the whole) does not change.
  void ReadInto(const StateTensor& part) const;

  // Returns the texts of all ranks, by rank. A collective.
  using Exchange = std::function<std::vector<std::string>(const std::string& own)>;
  // Loads the state into the owners, whatever the layout of the saved run: each gets the parts that
  // it names. `exchange` is a collective of the ranks that load the state together; each rank may
  // name some of it. Returns whether another number of ranks had tensors of their own, whose mean
  // each rank has got (StateVisitor::Section).
  //
  // Throws Failure (Code::kStateDoesNotFit) on all ranks, which names what is missing, unknown to
  // all, or of other shape or type. The owners may then have a part of the state: replace them.
  bool Load(const VisitState& owners, const Exchange& exchange = {}) const;

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
