#include "trainer/checkpoint/write_checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/owned_folder.h"
#include "base/unique_fd.h"
#include "trainer/checkpoint/commit.h"

namespace ddprun::trainer {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kBlockBytes = size_t{1} << 20;  // small enough to stay in the cache
constexpr std::chrono::milliseconds kLongestNap{50};

std::string FiveDigits(int64_t number) {
  std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

Error NotSaved(const std::string& where, const std::string& what) {
  return Error{.title = "CHECKPOINT NOT SAVED",
               .where = where,
               .what = what,
               .hint = "Training continues, and the earlier checkpoints are unchanged.",
               .page = "checkpoint-not-saved"};
}

// Makes a folder with its missing parents.
Status MakeFolder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  if (::mkdir(path.c_str(), 0777) == 0) return SyncFolder(parent);
  if (errno == EEXIST) return {};
  if (errno != ENOENT || parent.empty()) return CannotWrite(path, errno);
  DDPRUN_TRY(MakeFolder(parent));
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return CannotWrite(path, errno);
  return SyncFolder(parent);
}

// Writes the parts of one file. Returns its size and checksum.
Result<FileSum> WriteSummed(const std::string& folder,
                            const std::string& name,
                            std::initializer_list<std::string_view> parts) {
  const std::string path = folder + "/" + name;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return CannotWrite(path, errno);
  FileSum sum{.name = name};
  for (std::string_view part : parts) {
    for (; !part.empty(); part.remove_prefix(std::min(part.size(), kBlockBytes))) {
      const std::string_view block = part.substr(0, kBlockBytes);
      sum.crc32c = Crc32c(block, sum.crc32c);
      sum.bytes += static_cast<int64_t>(block.size());
      DDPRUN_TRY(WriteAll(fd.get(), block, path));
    }
  }
  if (::fsync(fd.get()) != 0) return CannotWrite(path, errno);
  return sum;
}

std::string RecordPath(const std::string& folder, int64_t rank) {
  return folder + "/rank-" + FiveDigits(rank) + ".json";
}

Status LeaveRecord(const std::string& folder, int64_t rank, const ShardRecord& record) {
  return WriteFileAtomically(RecordPath(folder, rank), RecordText(record), Durability::kUnsynced);
}

class CheckpointWriter {
 public:
  CheckpointWriter(const PreparedShard& writing, const std::atomic<bool>& abandoned)
      : writing_(writing),
        abandoned_(abandoned),
        path_(CheckpointPath(writing.options.folder, writing.request.step)),
        temporary_(UnfinishedPath(writing.options, writing.request)),
        part_(writing.options.part) {}

  Status Write() {
    DDPRUN_TRY(WriteOwn());
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(writing_.options.deadline));
    return part_.rank == 0 ? Commit() : WaitForCommit();
  }
  // Returns the bytes of the checkpoint on rank 0, of the shard on other ranks.
  int64_t bytes() const { return bytes_; }

 private:
  // Returns nullopt while there is none.
  Result<std::optional<ShardRecord>> Record(int64_t rank) const {
    const std::string path = RecordPath(temporary_, rank);
    const std::optional<std::string> text = ReadSmallFile(path);
    if (text) return ParseRecord(*text);
    if (!IsMissingFile(errno))
      return NotSaved(path, "It cannot be read: " + ErrnoText(errno) + ".");
    return std::optional<ShardRecord>();
  }

  Status WriteOwn() {
    DDPRUN_TRY(MakeFolder(writing_.options.folder));
    if (::mkdir(temporary_.c_str(), 0777) != 0 && errno != EEXIST) {
      return CannotWrite(temporary_, errno);
    }
    DDPRUN_ASSIGN(FileSum shard,
                  WriteSummed(temporary_, ShardName(part_), {writing_.header, writing_.bytes}));
    bytes_ = shard.bytes;
    return LeaveRecord(temporary_, part_.rank,
                       {.shard = std::move(shard), .table = writing_.table});
  }

  // Calls `done` until it returns true or an error.
  Status WaitUntil(const std::string& where, const std::function<Result<bool>()>& done) const {
    std::chrono::milliseconds nap{1};
    while (true) {
      DDPRUN_ASSIGN(const bool ready, done());
      if (ready) return {};
      if (abandoned_) return NotSaved(where, "It was not ready when the run had to stop waiting.");
      if (Clock::now() > deadline_) {
        const std::string limit = std::to_string(std::lround(writing_.options.deadline));
        return NotSaved(where, "It was not ready " + limit + " s after rank " +
                                   std::to_string(part_.rank) + ".");
      }
      std::this_thread::sleep_for(nap);
      nap = std::min(nap * 2, kLongestNap);
    }
  }

  Status CollectRecord(int64_t rank, TensorTable& all, std::vector<FileSum>& files) const {
    const std::string where = "rank " + std::to_string(rank);
    std::optional<ShardRecord> record;
    DDPRUN_TRY(WaitUntil(where, [&]() -> Result<bool> {
      DDPRUN_ASSIGN(record, Record(rank));
      return record.has_value();
    }));
    if (!record->error.empty()) return NotSaved(where, record->error);
    files.push_back(std::move(record->shard));
    return Merge(std::move(record->table), all);
  }

  Status Commit() {
    const SaveRequest& request = writing_.request;
    Index index{.step = request.step, .run = request.run};
    trainer::Commit commit{
        .step = request.step, .attempt = request.attempt, .score = request.score};
    for (int64_t rank = 0; rank < part_.size; ++rank) {
      DDPRUN_TRY(CollectRecord(rank, index.table, commit.files));
    }
    DDPRUN_ASSIGN(const std::string text, IndexText(index));
    // Checks before the commit that the ranks' pieces make up the whole of each tensor.
    if (Result<Index> checked = ParseIndex(text, path_); !checked) {
      return NotSaved(path_, checked.error().what);
    }
    DDPRUN_ASSIGN(FileSum sum, WriteSummed(temporary_, kIndexFile, {text}));
    commit.files.push_back(std::move(sum));
    bytes_ = 0;
    for (const FileSum& file : commit.files) bytes_ += file.bytes;
    DDPRUN_ASSIGN([[maybe_unused]] const FileSum own,
                  WriteSummed(temporary_, kCommitFile, {CommitText(commit)}));
    for (int64_t rank = 0; rank < part_.size; ++rank) {
      const std::string record = RecordPath(temporary_, rank);
      if (::unlink(record.c_str()) != 0) return CannotWrite(record, errno);
    }
    DDPRUN_ASSIGN([[maybe_unused]] const std::string aside,
                  PublishFolder(temporary_, path_, IsCheckpointFile));
    return {};
  }

  Status WaitForCommit() const {
    return WaitUntil("rank 0", [&]() -> Result<bool> {
      const Result<trainer::Commit> commit = ReadCommit(path_);
      if (commit && commit->attempt == writing_.request.attempt) return true;
      DDPRUN_ASSIGN(const std::optional<ShardRecord> first, Record(0));
      if (first && !first->error.empty()) return NotSaved("rank 0", first->error);
      return false;
    });
  }

  const PreparedShard& writing_;
  const std::atomic<bool>& abandoned_;
  const std::string path_;
  const std::string temporary_;
  const RankPart part_;
  Clock::time_point deadline_ = {};
  int64_t bytes_ = 0;
};

}  // namespace

namespace {

// Sets the link `latest`, a hint for people and tools. A failure loses no data.
Status PointTo(const std::string& path, const std::string& folder) {
  const std::string link = path + ".tmp-latest";
  const std::string latest = folder + "/latest";
  std::error_code error;
  const fs::file_status before = fs::symlink_status(latest, error);
  if (fs::exists(before) && !fs::is_symlink(before)) return CannotWrite(latest, EEXIST);
  if (::symlink(fs::path(path).filename().c_str(), link.c_str()) != 0 ||
      ::rename(link.c_str(), latest.c_str()) != 0) {
    const int error_number = errno;
    (void)::unlink(link.c_str());
    return CannotWrite(latest, error_number);
  }
  return {};
}

}  // namespace

std::string ShardName(RankPart part) {
  return "shard-" + FiveDigits(part.rank) + "-of-" + FiveDigits(part.size) + ".safetensors";
}

std::string UnfinishedPath(const SaverOptions& options, const SaveRequest& request) {
  return CheckpointPath(options.folder, request.step) + ".tmp-" + request.attempt;
}

Status WriteCheckpoint(const PreparedShard& writing,
                       const std::atomic<bool>& abandoned,
                       SaveOutcome& outcome) {
  const SaverOptions& options = writing.options;
  const int64_t step = writing.request.step;
  const bool first = options.part.rank == 0;
  const auto note = [&](Status status) {
    if (!status.ok() && !outcome.not_deleted) outcome.not_deleted = std::move(status).error();
  };
  if (first) {
    note(RemoveUnfinished(options.folder, step, UnfinishedPath(options, writing.request)));
  }
  CheckpointWriter writer(writing, abandoned);
  DDPRUN_TRY(writer.Write());
  outcome.path = CheckpointPath(options.folder, step);
  outcome.bytes = writer.bytes();
  if (!first) return {};
  note(PointTo(outcome.path, options.folder));
  const Result<std::vector<StoredCheckpoint>> stored = ListCheckpoints(options.folder);
  if (!stored) return note(stored.error()), Status();
  for (const StoredCheckpoint& old : FindSurplus(*stored, step, options.retention)) {
    note(RemoveCheckpoint(old.path));
  }
  return {};
}

void AbandonShard(const PreparedShard& writing, const Error& error) {
  const SaverOptions& options = writing.options;
  const std::string folder = UnfinishedPath(options, writing.request);
  if (options.part.size == 1) {
    (void)RemoveOwnFolder(folder, IsCheckpointFile);
    return;
  }
  (void)MakeFolder(options.folder);
  (void)::mkdir(folder.c_str(), 0777);
  std::error_code ignored;
  fs::remove(folder + "/" + ShardName(options.part), ignored);  // room for the record, too
  (void)LeaveRecord(folder, options.part.rank, {.error = error.what});
}

}  // namespace ddprun::trainer
