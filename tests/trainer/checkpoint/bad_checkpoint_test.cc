// Damaged, foreign and newer checkpoints are refused with file and reason; the one before is taken.
#include <gmock/gmock.h>

#include "base/crc32c.h"
#include "tests/base/sanitized.h"
#include "tests/trainer/checkpoint/checkpoint_fixture.h"
#include "trainer/checkpoint/commit.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kShard = "/shard-00000-of-00001.safetensors";

class BadCheckpoint : public testing::Test {
 protected:
  BadCheckpoint() {
    for (const int64_t step : {1, 2}) EXPECT_FALSE(SaveSmall(folder_.path(), step).error);
    bad_ = folder_.path() + "/step-2";
  }

  // Why the bad one is not taken; checks that the one before is.
  Error Refused() {
    NewestCheckpoint newest = ValueOrThrow(OpenNewest(folder_.path()));
    EXPECT_TRUE(newest.checkpoint && newest.checkpoint->step() == 1);
    EXPECT_EQ(newest.skipped.size(), 1U);
    return newest.skipped.empty() ? Error() : newest.skipped.front();
  }
  // COMMIT as it would be for the files that are there.
  void CommitAgain() {
    Commit commit = ValueOrThrow(ReadCommit(bad_));
    for (FileSum& file : commit.files) {
      const std::string content = ReadAll(bad_ + "/" + file.name);
      file.bytes = static_cast<int64_t>(content.size());
      file.crc32c = Crc32c(content);
    }
    WriteAllOf(bad_ + "/COMMIT", CommitText(commit));
  }
  void Replace(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = ReadAll(bad_ + file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    WriteAllOf(bad_ + file, text.replace(at, from.size(), to));
  }

  CheckpointFolder folder_;
  std::string bad_;
};

void PutByte(const std::string& path, size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at)).put(byte);
}

TEST_F(BadCheckpoint, IsAnyWithABitFlipped) {
  for (const std::string file : {kShard, "/index.json", "/COMMIT"}) {
    const std::string whole = ReadAll(bad_ + file);
    for (size_t bit = 0; bit < 8 * whole.size(); bit += kSanitized ? 31 : 3) {
      PutByte(bad_ + file, bit / 8, static_cast<char>(whole[bit / 8] ^ (1 << bit % 8)));
      const Result<Checkpoint> opened = Checkpoint::Open(bad_);
      ASSERT_FALSE(opened) << file << " bit " << bit;
      ASSERT_THAT(opened.error().where, HasSubstr(file)) << opened.error().what;
      PutByte(bad_ + file, bit / 8, whole[bit / 8]);
    }
  }
  EXPECT_TRUE(Checkpoint::Open(bad_));
}

TEST_F(BadCheckpoint, IsOneCutShort) {
  for (const std::string file : {kShard, "/index.json", "/COMMIT"}) {
    const std::string whole = ReadAll(bad_ + file);
    for (size_t size = 0; size < whole.size(); size += kSanitized ? 53 : 13) {
      WriteAllOf(bad_ + file, whole.substr(0, size));
      EXPECT_THAT(Refused().where, HasSubstr(file)) << size;
    }
    WriteAllOf(bad_ + file, whole + "x");
    EXPECT_THAT(Refused().where, HasSubstr(file));
    WriteAllOf(bad_ + file, whole);
  }
}

TEST_F(BadCheckpoint, IsOneWithoutAFile) {
  fs::rename(bad_ + kShard, folder_.path() + "/kept");
  EXPECT_THAT(Refused().what, AllOf(HasSubstr(kShard), HasSubstr("it is missing")));
  fs::create_directory(bad_ + kShard);
  EXPECT_THAT(Refused().what, HasSubstr("it is no regular file"));
  fs::remove(bad_ + kShard);
  fs::rename(folder_.path() + "/kept", bad_ + kShard);
  fs::remove(bad_ + "/COMMIT");
  const Error error = Refused();
  EXPECT_EQ(error.page, "not-a-checkpoint");
  EXPECT_THAT(error.what, HasSubstr("COMMIT cannot be read: No such file or directory"));
}

// A link to itself stands for whatever makes open() fail: root may read everything else.
TEST_F(BadCheckpoint, IsNotOneThatCannotBeRead) {
  for (const std::string file : {kShard, "/index.json", "/COMMIT"}) {
    fs::rename(bad_ + file, folder_.path() + "/kept");
    fs::create_symlink(bad_ + file, bad_ + file);
    const Result<NewestCheckpoint> newest = OpenNewest(folder_.path());
    ASSERT_FALSE(newest.has_value()) << file;
    EXPECT_EQ(newest.error().page, "unreadable-checkpoint");
    EXPECT_FALSE(IsDamage(newest.error()));
    fs::remove(bad_ + file);
    fs::rename(folder_.path() + "/kept", bad_ + file);
  }
  const std::string loop = folder_.path() + "/loop";
  fs::create_symlink(loop, loop);
  EXPECT_FALSE(ListCheckpoints(loop).has_value());
  EXPECT_FALSE(PrepareCheckpointFolder(loop, 0).ok());
  EXPECT_EQ(ValueOrThrow(OpenNewest(folder_.path())).checkpoint->step(), 2);
}

TEST_F(BadCheckpoint, IsFoundByTheOneWhoseShareItIsIn) {
  PutByte(bad_ + kShard, fs::file_size(bad_ + kShard) - 1, '\x7f');
  const Checkpoint opened = ValueOrThrow(Checkpoint::Open(bad_, Verify::kSizes));
  int found = 0;
  for (const int64_t rank : {0, 1, 2}) {
    const Status status = opened.CheckBytes({.rank = rank, .size = 3});
    if (status.ok()) continue;
    ++found;
    EXPECT_TRUE(IsDamage(status.error()));
  }
  EXPECT_EQ(found, 1);
}

TEST_F(BadCheckpoint, IsOneWithAShardOfAnother) {
  fs::copy_file(folder_.path() + "/step-1" + kShard, bad_ + kShard,
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Refused().what, AllOf(HasSubstr(kShard), HasSubstr("checksum")));
}

TEST_F(BadCheckpoint, IsOneOfANewerVersion) {
  Replace("/COMMIT", "ddprun checkpoint 2", "ddprun checkpoint 3");
  const Error error = Refused();
  EXPECT_EQ(error.title, "CHECKPOINT OF A NEWER VERSION");
  EXPECT_THAT(error.what, HasSubstr("It has format 3; this ddprun reads formats up to 2."));
}

// Where checksums are right, for who wrote the files wrote them wrongly.
TEST_F(BadCheckpoint, IsOneThatContradictsItself) {
  const std::string index = ReadAll(bad_ + "/index.json");
  const std::vector<std::array<std::string, 3>> cases = {
      {R"("step": 2)", R"("step": 3)", "its step is not that of COMMIT"},
      {R"("step": 2)", R"("step": "2")", "type must be number"},
      {R"("numbers")", R"("Numbers")", "key 'numbers' not found"},
      {R"("dtype": "BF16")", R"("dtype": "F16")", "is not there as index.json has it"},
      {R"("dtype": "BF16")", R"("dtype": "F13")", "unknown dtype"},
      {R"("name": "model.half")", R"("name": "model.none")", "is not there as index.json has it"},
      {R"("model.tied": "model.weight")", R"("model.tied": "model.w")",
       "\"model.w\", which is missing"},
      {R"("file": "shard-00000-)", R"("file": "shard-00001-)", "it names no shard"},
      {"{", "", "parse error"}};
  for (const auto& [from, to, reason] : cases) {
    Replace("/index.json", from, to);
    CommitAgain();
    EXPECT_THAT(Refused().what, HasSubstr(reason)) << to;
    WriteAllOf(bad_ + "/index.json", index);
  }
}

TEST_F(BadCheckpoint, IsOneWhoseStateIsOfAnotherModel) {
  const Checkpoint checkpoint = ValueOrThrow(Checkpoint::Open(bad_));
  SmallState other(0);
  other.weight = at::zeros({5, 4});
  int64_t number = 0;
  EXPECT_THAT(ThrownText([&] {
                checkpoint.Load([&](StateVisitor& visitor) {
                  visitor.Section("model.");
                  visitor.Tensor("weight", other.weight);
                  visitor.Tensor("half", other.half.to(at::kFloat));
                  visitor.Tensor("mask", other.mask);
                  visitor.Tensor("more", other.mask);
                  visitor.Number("count", number);
                });
              }),
              AllOf(HasSubstr("Missing (2): model.more, model.count\n"),
                    HasSubstr("Not in this run (5): model.empty, model.strided, "
                              "optimizer.scalar, model.tied, optimizer.step\n"),
                    HasSubstr("model.weight is Float [5, 3] there and Float [5, 4] here"),
                    HasSubstr("model.half is BFloat16 [7] there and Float [7] here")));
  EXPECT_THAT(ThrownText([&] { checkpoint.Read("model.none"); }), HasSubstr("no tensor"));
}

TEST_F(BadCheckpoint, DoesNotHideTheOnesBehindIt) {
  fs::remove_all(bad_);
  WriteAllOf(bad_, "a file");
  WriteAllOf(folder_.path() + "/step-x", "");
  fs::create_directory(folder_.path() + "/step-99999999999999999999");
  EXPECT_EQ(Refused().page, "not-a-checkpoint");
  EXPECT_FALSE(ValueOrThrow(OpenNewest(folder_.path() + "/none")).checkpoint);
}

TEST_F(BadCheckpoint, IsSetAsideByARunThatGoesOnFromAnEarlierOne) {
  Replace("/index.json", "model", "nodel");
  ASSERT_TRUE(PrepareCheckpointFolder(folder_.path(), 1).ok());
  EXPECT_TRUE(fs::exists(folder_.path() + "/step-2.aside-1"));
  EXPECT_TRUE(ValueOrThrow(OpenNewest(folder_.path())).skipped.empty());
  EXPECT_TRUE(PrepareCheckpointFolder(folder_.path() + "/none", 0).ok());
}

}  // namespace
}  // namespace ddprun::trainer
