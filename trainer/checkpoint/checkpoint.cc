#include "trainer/checkpoint/checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <utility>

#include "base/crc32c.h"
#include "base/failure.h"
#include "base/unique_fd.h"
#include "trainer/checkpoint/commit.h"
#include "trainer/checkpoint/index.h"
#include "trainer/state/placement.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kReadBytes = 1 << 20;

// Checks that the file is as COMMIT describes it.
Status CheckFile(const std::string& folder, const FileSum& file, bool checksum) {
  const std::string path = folder + "/" + file.name;
  const auto broken = [&](const std::string& what) { return BrokenCheckpoint(path, what); };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    if (!IsMissingFile(errno)) return UnreadableCheckpoint(path, errno);
    return broken(errno == ENOENT ? "it is missing" : ErrnoText(errno));
  }
  if (!S_ISREG(status.st_mode)) return broken("it is no regular file");
  if (status.st_size != file.bytes) {
    return broken("it has " + std::to_string(status.st_size) + " bytes in place of " +
                  std::to_string(file.bytes));
  }
  if (!checksum) return {};
  std::string block(kReadBytes, '\0');
  uint32_t sum = 0;
  while (true) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return UnreadableCheckpoint(path, errno);
    if (got == 0) break;
    sum = Crc32c(std::string_view(block).substr(0, static_cast<size_t>(got)), sum);
  }
  if (sum != file.crc32c) return broken("its checksum differs: some of its bytes have changed");
  return {};
}

// Reads the elements that a piece and a part have in common, in as few and as long reads as
// possible. `part` is contiguous.
void ReadShared(const SafetensorsFile& file,
                const CheckpointPiece& piece,
                const PartRuns& piece_runs,
                const PartRuns& part_runs,
                const at::Tensor& part) {
  const auto bytes = static_cast<int64_t>(part.element_size());
  auto* const to = static_cast<char*>(part.mutable_data_ptr());
  struct {
    int64_t from = 0, to = 0, length = 0;
  } run;  // runs that follow each other in both count as one
  const auto read = [&] {
    if (run.length == 0) return;
    file.ReadBytes(piece.name, run.from * bytes, to + run.to * bytes,
                   static_cast<size_t>(run.length * bytes));
  };
  ForEachShared(piece_runs, part_runs, [&](int64_t from, int64_t target, int64_t length) {
    if (from != run.from + run.length || target != run.to + run.length) {
      read();
      run = {from, target, 0};
    }
    run.length += length;
  });
  read();
}

std::string Describe(at::ScalarType dtype, const std::vector<int64_t>& shape) {
  return c10::str(dtype, " ", at::IntArrayRef(shape));
}

Failure DoesNotFit(const std::string& path, const std::string& what) {
  return Failure(Error{
      .code = Code::kStateDoesNotFit,
      .title = "STATE DOES NOT FIT",
      .where = path,
      .what = what,
      .hint = "Go on with the model, the optimizer and the strategy that the checkpoint was saved "
              "with.",
      .page = "state-does-not-fit"});
}

Failure NoTensor(const std::string& path, const std::string& name) {
  return DoesNotFit(path, "The checkpoint has no tensor \"" + name + "\".");
}

// Returns whether several ranks have each written a slice [rank, ...] of its own.
bool IsApart(const CheckpointTensor& stored) {
  const int64_t ranks = stored.shape.empty() ? 0 : stored.shape[0];
  return ranks > 1 && std::ssize(stored.pieces) == ranks &&
         std::ranges::all_of(stored.pieces, [](const auto& one) { return one.shape[0] == 1; });
}

// Returns whether each rank had such a tensor of its own, but there were more ranks, or fewer.
bool IsOfOtherRanks(const StateTensor& tensor, const CheckpointTensor& stored) {
  if (tensor.ranks == 0 || tensor.tensor.scalar_type() != stored.dtype) return false;
  const at::IntArrayRef there = at::IntArrayRef(stored.shape).slice(IsApart(stored) ? 1 : 0);
  return there == at::IntArrayRef(tensor.global_shape).slice(tensor.ranks > 1 ? 1 : 0);
}

// Reads the tensors that ranks had of their own, and gives this rank their mean.
void ReadMeanOfRanks(const Checkpoint& checkpoint,
                     const StateTensor& tensor,
                     const CheckpointTensor& stored) {
  const bool apart = IsApart(stored);
  std::vector<int64_t> sizes = stored.shape;
  if (apart) sizes[0] = 1;
  StateTensor one = {.name = tensor.name,
                     .tensor = at::empty(sizes, stored.dtype),
                     .global_shape = stored.shape,
                     .offset = std::vector<int64_t>(sizes.size())};
  checkpoint.ReadInto(one);
  if (apart && at::isFloatingType(stored.dtype)) {
    at::Tensor mean = one.tensor.to(at::kDouble);  // equal numbers have an equal mean
    for (one.offset[0] = 1; one.offset[0] < stored.shape[0]; ++one.offset[0]) {
      checkpoint.ReadInto(one);
      mean.add_(one.tensor);
    }
    one.tensor = mean.div_(stored.shape[0]);
  }
  const at::NoGradGuard no_grad;
  tensor.tensor.copy_(one.tensor.view(tensor.tensor.sizes()));
}

}  // namespace

// Reads a state from a checkpoint into its owners.
class CheckpointLoader final : public StateVisitor {
 public:
  explicit CheckpointLoader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  StateDifferences Differences(const Checkpoint::Exchange& exchange) && {
    if (exchange) ShareFindings(exchange);
    const auto add_unknown = [&](const auto& map) {
      for (const auto& [name, value] : map) {
        if (!visited_.contains(name)) differences_.unknown.push_back(name);
      }
    };
    add_unknown(checkpoint_.tensors());
    add_unknown(checkpoint_.aliases());
    add_unknown(checkpoint_.numbers());
    return std::move(differences_);
  }

  bool of_other_ranks() const { return of_other_ranks_; }

 private:
  void VisitTensor(StateTensor tensor) override {
    visited_.insert(tensor.name);
    const CheckpointTensor* stored = checkpoint_.Find(tensor.name);
    if (stored == nullptr) return differences_.missing.push_back(tensor.name);
    const std::string there = Describe(stored->dtype, stored->shape);
    const std::string here = Describe(tensor.tensor.scalar_type(), tensor.global_shape);
    if (there == here) return checkpoint_.ReadInto(tensor);
    if (!IsOfOtherRanks(tensor, *stored)) {
      differences_.misfits.push_back(tensor.name + " is " + there + " there and " + here + " here");
      return;
    }
    of_other_ranks_ = true;
    ReadMeanOfRanks(checkpoint_, tensor, *stored);
  }
  void VisitNumber(const std::string& name, int64_t& number) override {
    visited_.insert(name);
    const auto found = checkpoint_.numbers().find(name);
    if (found == checkpoint_.numbers().end()) return differences_.missing.push_back(name);
    number = found->second;
  }

  // Exchanges a line for each name that a rank has visited, and for each error that it has found.
  void ShareFindings(const Checkpoint::Exchange& exchange) {
    std::string own;
    for (const std::string& name : visited_) own += "v" + name + "\n";
    for (const std::string& name : differences_.missing) own += "m" + name + "\n";
    for (const std::string& text : differences_.misfits) own += "x" + text + "\n";
    std::set<std::string> missing, misfits;
    for (const std::string& text : exchange(own)) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        (line[0] == 'v' ? visited_ : line[0] == 'm' ? missing : misfits).insert(line.substr(1));
      }
    }
    differences_.missing.assign(missing.begin(), missing.end());
    differences_.misfits.assign(misfits.begin(), misfits.end());
  }

  const Checkpoint& checkpoint_;
  bool of_other_ranks_ = false;
  std::set<std::string> visited_;
  StateDifferences differences_;
};

Result<Checkpoint> Checkpoint::Open(const std::string& folder, Verify verify) {
  DDPRUN_ASSIGN(Commit commit, ReadCommit(folder));
  Checkpoint checkpoint;
  checkpoint.path_ = folder;
  checkpoint.step_ = commit.step;
  checkpoint.score_ = commit.score;
  for (const FileSum& file : commit.files) {
    const bool is_index = file.name == kIndexFile;
    DDPRUN_TRY(CheckFile(folder, file, is_index || verify == Verify::kChecksums));
    checkpoint.bytes_ += file.bytes;
    if (is_index) continue;
    try {
      checkpoint.shards_.emplace(file.name, SafetensorsFile(folder + "/" + file.name));
    } catch (const Failure& failure) {
      return failure.error();
    }
  }
  const std::string path = folder + "/" + kIndexFile;
  const std::optional<std::string> text = ReadSmallFile(path);
  if (!text) return UnreadableCheckpoint(path, errno);
  DDPRUN_ASSIGN(Index index, ParseIndex(*text, path));
  if (index.step != commit.step) return BrokenCheckpoint(path, "its step is not that of COMMIT");
  for (const auto& [name, tensor] : index.table.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      const auto shard = checkpoint.shards_.find(piece.file);
      if (shard == checkpoint.shards_.end()) return BrokenCheckpoint(path, "it names no shard");
      const auto entry = shard->second.entries().find(piece.name);
      if (entry == shard->second.entries().end() || entry->second.shape != piece.shape ||
          entry->second.dtype != tensor.dtype) {
        return BrokenCheckpoint(folder + "/" + piece.file,
                                "\"" + piece.name + "\" is not there as " + kIndexFile + " has it");
      }
    }
  }
  checkpoint.run_ = std::move(index.run);
  checkpoint.table_ = std::move(index.table);
  checkpoint.commit_ = std::make_shared<const Commit>(std::move(commit));
  return checkpoint;
}

Status Checkpoint::CheckBytes(RankPart part) const {
  const std::vector<FileSum>& files = commit_->files;
  for (size_t i = static_cast<size_t>(part.rank); i < files.size();
       i += static_cast<size_t>(part.size)) {
    DDPRUN_TRY(CheckFile(path_, files[i], /*checksum=*/true));
  }
  return {};
}

bool IsDamage(const Error& error) {
  return error.code == Code::kDamaged || error.code == Code::kNoCheckpoint;
}

const CheckpointTensor* Checkpoint::Find(const std::string& name) const {
  const auto alias = aliases().find(name);
  const auto found = tensors().find(alias == aliases().end() ? name : alias->second);
  return found == tensors().end() ? nullptr : &found->second;
}

void Checkpoint::ReadInto(const StateTensor& part) const {
  const at::NoGradGuard no_grad;
  const CheckpointTensor* stored = Find(part.name);
  if (stored == nullptr) throw NoTensor(path_, part.name);
  at::Tensor target = WithoutPadding(part);
  if (target.numel() == 0) return;
  if (target.scalar_type() != stored->dtype || part.global_shape != stored->shape ||
      !IsWithin({.offset = part.offset, .shape = target.sizes().vec(), .flat = part.flat},
                stored->shape)) {
    throw DoesNotFit(path_, "\"" + part.name + "\" is " + Describe(stored->dtype, stored->shape) +
                                " there, and no part of it is what was asked for.");
  }
  const bool directly = target.is_cpu() && target.is_contiguous();
  const at::Tensor read =
      directly ? target : at::empty(target.sizes(), at::TensorOptions(target.scalar_type()));
  const PartRuns runs(stored->shape, part.offset, target.sizes(), part.flat);
  for (const CheckpointPiece& piece : stored->pieces) {
    ReadShared(shards_.at(piece.file), piece,
               PartRuns(stored->shape, piece.offset, piece.shape, piece.flat), runs, read);
  }
  if (!directly) target.copy_(read);
}

at::Tensor Checkpoint::Read(const std::string& name) const {
  const CheckpointTensor* stored = Find(name);
  if (stored == nullptr) throw NoTensor(path_, name);
  const at::Tensor tensor = at::empty(stored->shape, stored->dtype);
  ReadInto({.name = name,
            .tensor = tensor,
            .global_shape = stored->shape,
            .offset = std::vector<int64_t>(stored->shape.size())});
  return tensor;
}

bool Checkpoint::Load(const VisitState& owners, const Exchange& exchange) const {
  CheckpointLoader loader(*this);
  owners(loader);
  const bool of_other_ranks = loader.of_other_ranks();
  const StateDifferences differences = std::move(loader).Differences(exchange);
  if (differences.none()) return of_other_ranks;
  throw DoesNotFit(path_,
                   "The checkpoint is that of another run.\n" + differences.Text("this run"));
}

}  // namespace ddprun::trainer
