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
#include <utility>

#include "base/failure.h"
#include "base/unique_fd.h"
#include "trainer/checkpoint/commit.h"
#include "trainer/checkpoint/crc32c.h"
#include "trainer/checkpoint/index.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kReadBytes = 1 << 20;

// Whether the file is what COMMIT says.
Status CheckFile(const std::string& folder, const FileSum& file, bool checksum) {
  const std::string path = folder + "/" + file.name;
  const auto broken = [&](const std::string& what) { return BrokenCheckpoint(path, what); };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
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
    if (got < 0) return broken(ErrnoText(errno));
    if (got == 0) break;
    sum = Crc32c(std::string_view(block).substr(0, static_cast<size_t>(got)), sum);
  }
  if (sum != file.crc32c) return broken("its checksum is another: bytes of it have changed");
  return {};
}

// What two boxes share: its offset in the whole and its shape; nullopt when that is nothing.
struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
};
std::optional<Box> Shared(std::span<const int64_t> offset,
                          std::span<const int64_t> shape,
                          const CheckpointPiece& piece) {
  Box box;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t begin = std::max(offset[i], piece.offset[i]);
    const int64_t end = std::min(offset[i] + shape[i], piece.offset[i] + piece.shape[i]);
    if (begin >= end) return std::nullopt;
    box.offset.push_back(begin);
    box.shape.push_back(end - begin);
  }
  return box;
}

at::Tensor Cut(at::Tensor tensor, const Box& box, std::span<const int64_t> origin) {
  for (size_t i = 0; i < box.shape.size(); ++i) {
    tensor = tensor.narrow(static_cast<int64_t>(i), box.offset[i] - origin[i], box.shape[i]);
  }
  return tensor;
}

// Reads a part of a piece: as few and as long runs of bytes as it lies in. `target` is contiguous
// and of the box's shape.
void ReadRuns(const SafetensorsFile& file,
              const CheckpointPiece& piece,
              const Box& box,
              const at::Tensor& target) {
  const size_t dims = box.shape.size();
  // Dimensions from `inner` on are read whole, the one before it as a range: one run.
  size_t inner = dims;
  auto run = static_cast<int64_t>(target.element_size());
  while (inner > 0 && box.shape[inner - 1] == piece.shape[inner - 1]) run *= piece.shape[--inner];
  std::vector<int64_t> stride(dims + 1, static_cast<int64_t>(target.element_size()));
  for (size_t i = dims; i-- > 0;) stride[i] = stride[i + 1] * piece.shape[i];
  const size_t outer = inner == 0 ? 0 : inner - 1;
  if (inner > 0) run *= box.shape[outer];
  int64_t runs = 1;
  for (size_t i = 0; i < outer; ++i) runs *= box.shape[i];
  auto* to = static_cast<char*>(target.mutable_data_ptr());
  for (int64_t number = 0; number < runs; ++number, to += run) {
    int64_t skip = inner == 0 ? 0 : (box.offset[outer] - piece.offset[outer]) * stride[inner];
    for (int64_t i = static_cast<int64_t>(outer), rest = number; i-- > 0;) {
      skip += (box.offset[i] - piece.offset[i] + rest % box.shape[i]) * stride[i + 1];
      rest /= box.shape[i];
    }
    file.ReadBytes(piece.name, skip, to, static_cast<size_t>(run));
  }
}

std::string Describe(at::ScalarType dtype, const std::vector<int64_t>& shape) {
  return c10::str(dtype, " ", at::IntArrayRef(shape));
}

Failure DoesNotFit(const std::string& path, const std::string& what) {
  return Failure(Error{
      .code = Code::kUsage,
      .title = "STATE DOES NOT FIT",
      .where = path,
      .what = what,
      .hint = "Go on with the model, the optimizer and the strategy that the checkpoint was saved "
              "with; where each rank had a tensor of its own, also with as many ranks.",
      .page = "state-does-not-fit"});
}

Failure NoTensor(const std::string& path, const std::string& name) {
  return DoesNotFit(path, "The checkpoint has no tensor \"" + name + "\".");
}

}  // namespace

// Reads a state's names from a checkpoint to their owners.
class CheckpointLoader final : public StateVisitor {
 public:
  explicit CheckpointLoader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  StateDifferences Differences(Checkpoint::Unknown unknown) && {
    const auto add_unknown = [&](const auto& map) {
      for (const auto& [name, value] : map) {
        if (!visited_.contains(name)) differences_.unknown.push_back(name);
      }
    };
    if (unknown == Checkpoint::Unknown::kRefused) {
      add_unknown(checkpoint_.tensors());
      add_unknown(checkpoint_.aliases());
      add_unknown(checkpoint_.numbers());
    }
    return std::move(differences_);
  }

 private:
  void VisitTensor(StateTensor tensor) override {
    visited_.insert(tensor.name);
    const CheckpointTensor* stored = checkpoint_.Find(tensor.name);
    if (stored == nullptr) return differences_.missing.push_back(tensor.name);
    const std::string there = Describe(stored->dtype, stored->shape);
    const std::string here = Describe(tensor.tensor.scalar_type(), tensor.global_shape);
    if (there != here) {
      differences_.misfits.push_back(tensor.name + " is " + there + " there and " + here + " here");
      return;
    }
    const int64_t rows = RowsWithin(tensor);
    if (rows == 0) return;
    if (tensor.tensor.dim() > 0) tensor.tensor = tensor.tensor.narrow(0, 0, rows);
    checkpoint_.ReadInto(tensor.name, tensor.offset, tensor.tensor);
  }
  void VisitNumber(const std::string& name, int64_t& number) override {
    visited_.insert(name);
    const auto found = checkpoint_.numbers().find(name);
    if (found == checkpoint_.numbers().end()) return differences_.missing.push_back(name);
    number = found->second;
  }

  const Checkpoint& checkpoint_;
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
  if (!text) return BrokenCheckpoint(path, "it cannot be read");
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
  checkpoint.numbers_ = std::move(index.numbers);
  checkpoint.run_ = std::move(index.run);
  checkpoint.tensors_ = std::move(index.table.tensors);
  checkpoint.aliases_ = std::move(index.table.aliases);
  return checkpoint;
}

const CheckpointTensor* Checkpoint::Find(const std::string& name) const {
  const auto alias = aliases_.find(name);
  const auto found = tensors_.find(alias == aliases_.end() ? name : alias->second);
  return found == tensors_.end() ? nullptr : &found->second;
}

void Checkpoint::ReadInto(const std::string& name,
                          std::span<const int64_t> offset,
                          at::Tensor target) const {
  const at::NoGradGuard no_grad;
  const CheckpointTensor* stored = Find(name);
  if (stored == nullptr) throw NoTensor(path_, name);
  bool fits = offset.size() == stored->shape.size() &&
              target.dim() == static_cast<int64_t>(offset.size()) &&
              target.scalar_type() == stored->dtype;
  for (size_t i = 0; fits && i < offset.size(); ++i) {
    fits = offset[i] >= 0 && target.size(static_cast<int64_t>(i)) <= stored->shape[i] - offset[i];
  }
  if (!fits) {
    throw DoesNotFit(path_, "\"" + name + "\" is " + Describe(stored->dtype, stored->shape) +
                                " there, and no part of it is what was asked for.");
  }
  const std::vector<int64_t> shape = target.sizes().vec();
  for (const CheckpointPiece& piece : stored->pieces) {
    const std::optional<Box> box = Shared(offset, shape, piece);
    if (!box) continue;
    const at::Tensor part = Cut(target, *box, offset);
    const bool directly = part.is_cpu() && part.is_contiguous();
    const at::Tensor read =
        directly ? part : at::empty(box->shape, at::TensorOptions(part.scalar_type()));
    ReadRuns(shards_.at(piece.file), piece, *box, read);
    if (!directly) part.copy_(read);
  }
}

at::Tensor Checkpoint::Read(const std::string& name) const {
  const CheckpointTensor* stored = Find(name);
  if (stored == nullptr) throw NoTensor(path_, name);
  at::Tensor tensor = at::empty(stored->shape, stored->dtype);
  ReadInto(name, std::vector<int64_t>(stored->shape.size()), tensor);
  return tensor;
}

void Checkpoint::Load(const VisitState& owners, Unknown unknown) const {
  CheckpointLoader loader(*this);
  owners(loader);
  const StateDifferences differences = std::move(loader).Differences(unknown);
  if (differences.none()) return;
  throw DoesNotFit(path_,
                   "The checkpoint is that of another run.\n" + differences.Text("this run"));
}

}  // namespace ddprun::trainer
