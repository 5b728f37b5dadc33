// The machine loses power during a save: what was fsynced is there, anything else perhaps, in part,
// or not at all, in any combination. One checkpoint loads from every state of the disk that this
// may leave.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <random>
#include <set>

#include "base/atomic_file.h"
#include "tests/trainer/checkpoint/checkpoint_fixture.h"
#include "tests/trainer/checkpoint/file_calls.h"

namespace ddprun::trainer {
namespace {

// Contents by path from the folder; of a folder itself, whose path ends in '/', none.
using DiskState = std::map<std::string, std::string>;

// Follows the calls of one thread, and knows which states a crash after each may leave.
class ModelDisk final : public FileWatcher {
 public:
  explicit ModelDisk(std::string root) : root_(std::move(root)) {
    inodes_.push_back({.is_folder = true});
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_symlink()) continue;
      const std::string path = entry.path().string();
      const std::string content = entry.is_directory() ? "" : ReadAll(path);
      Add(path, {.is_folder = entry.is_directory(), .content = content, .durable = content});
    }
    for (const Change& change : pending_) Apply(change, durable_);
    pending_.clear();
  }

  int Before(FileCall&) override { return 0; }

  void After(const FileCall& call) override {
    if (call.changes_nothing()) return;
    const std::optional<int> inode = Find(call.path);
    switch (call.kind) {
      case FileCall::Kind::kOpen:
        if ((call.flags & O_CREAT) != 0 && !inode) Add(call.path, {});
        if ((call.flags & O_TRUNC) != 0 && inode) inodes_[*inode].content.clear();
        break;
      case FileCall::Kind::kMakeFolder:
        Add(call.path, {.is_folder = true});
        break;
      case FileCall::Kind::kWrite:
        inodes_.at(inode.value()).content += call.bytes;
        break;
      case FileCall::Kind::kSync:
        Sync(inode.value());
        break;
      case FileCall::Kind::kRename:
        if (inode) Record({{Place(call.path), std::nullopt}, {Place(call.to), inode}});
        break;
      case FileCall::Kind::kExchange:
        Record({{Place(call.path), Find(call.to)}, {Place(call.to), inode}});
        break;
      case FileCall::Kind::kRemove:
        if (inode) Record({{Place(call.path), std::nullopt}});
        break;
      case FileCall::Kind::kTruncate:
        ADD_FAILURE() << "this disk knows no ftruncate(): " << call.path;
        return;
      default:  // no change of names or contents
        return;
    }
    AddStates();
  }

  const std::set<DiskState>& states() const { return states_; }
  // States of after the last call only.
  std::set<DiskState> LastStates() {
    states_.clear();
    AddStates();
    return states_;
  }

 private:
  struct Inode {
    bool is_folder = false;
    std::string content = {};  // as programs see it
    std::string durable = {};
  };
  using EntryPlace = std::pair<int, std::string>;           // folder and name
  using Change = std::map<EntryPlace, std::optional<int>>;  // atomic; within one folder
  using Entries = std::map<EntryPlace, int>;

  static void Apply(const Change& change, Entries& entries) {
    for (const auto& [place, inode] : change) {
      entries.erase(place);
      if (inode) entries[place] = *inode;
    }
  }

  void Record(Change change) {
    Apply(change, entries_);
    pending_.push_back(std::move(change));
  }
  void Add(const std::string& path, Inode inode) {
    inodes_.push_back(std::move(inode));
    Record({{Place(path), static_cast<int>(inodes_.size()) - 1}});
  }
  void Sync(int inode) {
    inodes_[inode].durable = inodes_[inode].content;
    std::erase_if(pending_, [&](const Change& change) {
      if (change.begin()->first.first != inode) return false;
      Apply(change, durable_);
      return true;
    });
  }

  EntryPlace Place(const std::string& path) const {
    const fs::path whole(path);
    return {Find(whole.parent_path().string()).value(), whole.filename().string()};
  }
  std::optional<int> Find(const std::string& path) const {
    int inode = 0;
    for (const fs::path& name :
         fs::relative(path, "/").lexically_relative(fs::relative(root_, "/"))) {
      if (name == ".") continue;
      const auto found = entries_.find({inode, name.string()});
      if (found == entries_.end()) return std::nullopt;
      inode = found->second;
    }
    return inode;
  }

  // Adds the states after a power cut. Of the changes without an fsync survive: none, all, each
  // alone, all but each, all up to each, and some drawn; contents as they are, lost, cut, or zeros.
  void AddStates() {
    const size_t count = pending_.size();
    std::vector<std::vector<bool>> choices = {std::vector<bool>(count, false),
                                              std::vector<bool>(count, true)};
    for (size_t i = 0; i < count; ++i) {
      choices.emplace_back(count, false)[i] = true;
      choices.emplace_back(count, true)[i] = false;
      auto& prefix = choices.emplace_back(count, false);
      std::fill(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(i), true);
    }
    for (int drawn = 0; drawn < 10; ++drawn) {
      auto& choice = choices.emplace_back(count);
      for (size_t i = 0; i < count; ++i) choice[i] = random_() % 2 == 0;
    }
    for (const std::vector<bool>& choice : choices) {
      Entries entries = durable_;
      for (size_t i = 0; i < count; ++i) {
        if (choice[i]) Apply(pending_[i], entries);
      }
      for (int contents = 0; contents < 5; ++contents) AddState(entries, contents);
    }
  }
  void AddState(const Entries& entries, int contents) {
    DiskState state;
    AddFolder(0, "", entries, contents, state);
    states_.insert(std::move(state));
  }
  void AddFolder(
      int folder, const std::string& path, const Entries& entries, int contents, DiskState& state) {
    for (auto at = entries.lower_bound({folder, ""}); at != entries.end(); ++at) {
      if (at->first.first != folder) break;
      const Inode& inode = inodes_[at->second];
      const std::string name = path + at->first.second;
      if (inode.is_folder) {
        state[name + "/"] = "";
        AddFolder(at->second, name + "/", entries, contents, state);
      } else {
        state[name] = Content(inode, contents);
      }
    }
  }
  std::string Content(const Inode& inode, int contents) {
    if (inode.content == inode.durable) return inode.content;
    switch (contents == 4 ? random_() % 4 : contents) {
      case 0:
        return inode.content;
      case 1:
        return inode.durable;
      case 2:
        return inode.content.substr(0, random_() % (inode.content.size() + 1));
      default:
        return std::string(inode.content.size(), '\0');
    }
  }

  const std::string root_;
  std::vector<Inode> inodes_;  // 0: the root
  Entries entries_;            // as programs see them
  Entries durable_;
  std::vector<Change> pending_;
  std::set<DiskState> states_;
  std::minstd_rand random_{1};
};

void MakeState(const std::string& folder, const DiskState& state) {
  fs::remove_all(folder);
  fs::create_directory(folder);
  for (const auto& [path, content] : state) {
    if (path.ends_with('/')) {
      fs::create_directory(folder + "/" + path);
    } else {
      WriteAllOf(folder + "/" + path, content);
    }
  }
}

// The step that loads, after which a run goes on; -1: none does.
int64_t StepAfter(const std::string& folder, const DiskState& state) {
  MakeState(folder, state);
  const NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder));
  if (!newest.checkpoint) return -1;
  EXPECT_TRUE(HasSmallState(*newest.checkpoint));
  const int64_t step = newest.checkpoint->step();
  EXPECT_TRUE(PrepareCheckpointFolder(folder, step).ok());
  const NewestCheckpoint again = ValueOrThrow(OpenNewest(folder));
  EXPECT_TRUE(again.checkpoint && again.checkpoint->step() == step);
  return step;
}

struct PowerCutCase {
  std::string name;
  std::vector<int64_t> before;  // steps that are there
  int64_t step;                 // that is saved; older ones go
};

class PowerCut : public testing::TestWithParam<PowerCutCase> {};

TEST_P(PowerCut, LeavesACheckpointThatLoads) {
  const CheckpointFolder folder;
  const CheckpointFolder after;
  for (const int64_t step : GetParam().before) {
    ASSERT_FALSE(SaveSmall(folder.path(), step).error);
  }
  ModelDisk disk(folder.path());
  {
    const WatchFiles watch(folder.path(), disk);
    ASSERT_FALSE(SaveSmall(folder.path(), GetParam().step, "b", {.newest = 1}).error);
  }
  EXPECT_GT(disk.states().size(), 200U);
  const std::string scratch = after.path() + "/state";
  for (const DiskState& state : disk.states()) {
    const int64_t step = StepAfter(scratch, state);
    if (GetParam().before.empty()) continue;
    ASSERT_NE(step, -1);
    ASSERT_GE(step, GetParam().before.back());
  }
  // A checkpoint whose save has succeeded survives.
  for (const DiskState& state : disk.LastStates()) {
    ASSERT_EQ(StepAfter(scratch, state), GetParam().step);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         PowerCut,
                         testing::Values(PowerCutCase{"First", {}, 1},
                                         PowerCutCase{"Next", {1}, 2},
                                         PowerCutCase{"Again", {2}, 2},
                                         PowerCutCase{"AgainAfterAnother", {1, 2}, 2}),
                         [](const auto& test) { return test.param.name; });

// The model finds out what a missing fsync costs.
TEST(ModelDisk, KnowsThatARenameAloneIsNotEnough) {
  const CheckpointFolder folder;
  ModelDisk disk(folder.path());
  {
    const WatchFiles watch(folder.path(), disk);
    const std::string text = "text";
    ASSERT_TRUE(WriteFileAtomically(folder.path() + "/file", text, Durability::kUnsynced).ok());
  }
  const std::set<DiskState> unsynced = disk.LastStates();
  EXPECT_TRUE(unsynced.contains({}));
  EXPECT_TRUE(unsynced.contains({{"file", ""}}));
  EXPECT_TRUE(unsynced.contains({{"file", "text"}}));
  {
    const WatchFiles watch(folder.path(), disk);
    ASSERT_TRUE(WriteFileAtomically(folder.path() + "/file", "more").ok());
  }
  EXPECT_EQ(disk.LastStates(), (std::set<DiskState>{{{"file", "more"}}}));
}

}  // namespace
}  // namespace ddprun::trainer
