// A run of weeks saves often.
#include <fstream>
#include <iterator>

#include "tests/base/sanitized.h"
#include "tests/trainer/checkpoint/checkpoint_fixture.h"

namespace ddprun::trainer {
namespace {

// Under a sanitizer memory that was freed is kept, and a save takes twenty times as long.
constexpr int kSaves = kSanitized ? 200 : 1000;

int64_t ResidentPages() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  statm >> all >> resident;
  return resident;
}

int64_t CountOf(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(ManySaves, TakeNoMoreMemoryThanAFew) {
  const CheckpointFolder folder;
  BackgroundSaver saver({.folder = folder.path(), .retention = {.newest = 2}});
  SmallState state(1);
  state.weight = at::zeros({300, 1000});
  int64_t pages = 0;
  int64_t files = 0;
  for (int64_t step = 1; step <= kSaves; ++step) {
    saver.Begin(state.Dict(), {.step = step, .attempt = "a"});
    saver.WaitForCopy();
    const std::optional<SaveOutcome> outcome = saver.Finish();
    ASSERT_TRUE(outcome && !outcome->error && !outcome->not_deleted);
    if (step == 100) {
      pages = ResidentPages();
      files = CountOf("/proc/self/fd");
    }
  }
  EXPECT_EQ(CountOf("/proc/self/fd"), files);
  EXPECT_EQ(CountOf(folder.path()), 3);
  // A MiB: less than one save.
  EXPECT_TRUE(kSanitized || ResidentPages() - pages < 256) << ResidentPages() - pages;
}

TEST(ManySaves, RemoveNothingThatTheyDidNotWrite) {
  for (const std::string name : {"/notes.txt", "/shard-merged.safetensors", "/rank-0/notes.json",
                                 "/rank-00000.json.bak", "/index.json.0.tmp~"}) {
    const CheckpointFolder folder;
    const auto notes = [&](const std::string& where) { return folder.path() + where + name; };
    const auto write = [&](const std::string& where) {
      fs::create_directories(fs::path(notes(where)).parent_path());
      WriteAllOf(notes(where), "mine");
    };
    ASSERT_FALSE(SaveSmall(folder.path(), 1).error);
    write("/step-1");
    write("/step-1.tmp-mine");
    const SaveOutcome outcome = SaveSmall(folder.path(), 2, "b", {.newest = 1});
    EXPECT_FALSE(outcome.error);
    ASSERT_TRUE(outcome.not_deleted) << name;
    EXPECT_NE(outcome.not_deleted->what.find(name.substr(1)), std::string::npos);
    EXPECT_EQ(ReadAll(notes("/step-1")), "mine");
    EXPECT_EQ(ReadAll(notes("/step-1.tmp-mine")), "mine");
    EXPECT_FALSE(SaveSmall(folder.path(), 1, "c").error);
    EXPECT_EQ(ReadAll(notes("/step-1.aside-1")), "mine");
  }
}

}  // namespace
}  // namespace ddprun::trainer
