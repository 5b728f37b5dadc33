#include "trainer/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Text(const at::Tensor& row) {
  std::string text;
  for (int64_t i = 0; i < row.size(0); ++i) {
    text.push_back(static_cast<char>(row[i].item<int64_t>()));
  }
  return text;
}

// Inputs and targets of one sample.
std::pair<std::string, std::string> Sample(const Dataset& dataset, int64_t index) {
  const Batch batch = dataset.Get(std::vector<int64_t>{index});
  return {Text(batch.inputs[0]), Text(batch.targets[0])};
}

Error ErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failure& failure) {
    return failure.error();
  }
  return {};
}

class TextDatasetTest : public testing::Test {
 protected:
  TextDataset Make(const std::string& pattern, int64_t sequence_length) const {
    const auto files = ExpandFiles({folder_.Path(pattern)});
    return TextDataset({.files = files, .sequence_length = sequence_length});
  }

  ScratchFolder folder_;
};

TEST_F(TextDatasetTest, ShiftsTargetsByOneByte) {
  folder_.Write("a.txt", "abcdefghi");
  const TextDataset dataset = Make("a.txt", 4);
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.tokens_per_sample(), 4);
  EXPECT_EQ(Sample(dataset, 0), std::pair(std::string("abcd"), std::string("bcde")));
  EXPECT_EQ(Sample(dataset, 1), std::pair(std::string("efgh"), std::string("fghi")));
}

TEST_F(TextDatasetTest, NeedsTheLastTargetToExist) {
  folder_.Write("a.txt", "abcdefgh");  // the second sample's last target would be byte 8
  EXPECT_EQ(Make("a.txt", 4).size(), 1);
}

TEST_F(TextDatasetTest, ReadsAcrossFilesInTheOrderOfTheirNames) {
  folder_.Write("3", "ghij");
  folder_.Write("1", "ab");
  folder_.Write("2", "cdef");
  folder_.Write("2empty", "");
  const TextDataset dataset = Make("*", 3);
  EXPECT_EQ(dataset.bytes(), 10);
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(Sample(dataset, 0), std::pair(std::string("abc"), std::string("bcd")));
  EXPECT_EQ(Sample(dataset, 1), std::pair(std::string("def"), std::string("efg")));
  EXPECT_EQ(Sample(dataset, 2), std::pair(std::string("ghi"), std::string("hij")));
}

TEST_F(TextDatasetTest, GivesInt64BatchesInTheOrderAskedFor) {
  folder_.Write("a.txt", std::string("\xff\x00\x80zyxw", 7));
  const Batch batch = Make("a.txt", 2).Get(std::vector<int64_t>{1, 0});
  EXPECT_EQ(batch.samples, 2);
  EXPECT_THAT(batch.inputs.sizes(), ElementsAre(2, 2));
  EXPECT_EQ(batch.inputs.scalar_type(), at::kLong);
  EXPECT_EQ(batch.inputs[1][0].item<int64_t>(), 255);
  EXPECT_EQ(batch.inputs[0][0].item<int64_t>(), 128);
}

TEST_F(TextDatasetTest, ReadsAFileMatchedTwiceOnce) {
  folder_.Write("a.txt", "abcdef");
  const auto files = ExpandFiles({folder_.Path("*.txt"), folder_.Path("./a.txt")});
  const TextDataset dataset({.files = files, .sequence_length = 2});
  EXPECT_EQ(dataset.bytes(), 6);
}

TEST_F(TextDatasetTest, RefusesEmptyText) {
  folder_.Write("a.txt", "");
  const Error error = ErrorOf([&] { Make("a.txt", 4); });
  EXPECT_EQ(error.title, "NO TEXT");
  EXPECT_THAT(error.what, AllOf(HasSubstr("a.txt"), HasSubstr("0 bytes")));
}

TEST_F(TextDatasetTest, SaysHowManyBytesThereAreAndHowManyAreNeeded) {
  folder_.Write("a.txt", "abcd");
  const Error error = ErrorOf([&] { Make("a.txt", 4); });
  EXPECT_EQ(error.code, Code::kUsage);
  EXPECT_THAT(error.what, AllOf(HasSubstr("has 4 bytes"), HasSubstr("needs 5")));
}

TEST_F(TextDatasetTest, RefusesMissingFilesAndFolders) {
  EXPECT_THAT(ErrorOf([&] { Make("none.txt", 4); }).title, "NO DATA FILE");
  EXPECT_THAT(ErrorOf([&] { Make("", 4); }).what, HasSubstr("is a folder"));
}

TEST_F(TextDatasetTest, RefusesAPipeWithoutWaitingForItsWriter) {
  ASSERT_EQ(::mkfifo(folder_.Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf([&] { Make("pipe", 4); }).what, HasSubstr("no regular file"));
}

TEST_F(TextDatasetTest, DatasetPartGivesItsPartOfTheSamples) {
  folder_.Write("a.txt", "abcdefghi");
  const TextDataset dataset = Make("a.txt", 2);
  const DatasetPart tail(dataset, 1, [](int64_t i) { return 3 + i; });
  EXPECT_EQ(tail.size(), 1);
  EXPECT_EQ(Sample(tail, 0), Sample(dataset, 3));
}

TEST(ValidationCount, TakesTheFractionButNeitherNothingNorAll) {
  EXPECT_EQ(ValidationCount(100, 0.0), 0);
  EXPECT_EQ(ValidationCount(100, 0.1), 10);
  EXPECT_EQ(ValidationCount(100, 0.001), 1);
  EXPECT_EQ(ValidationCount(1, 0.5), 0);
  EXPECT_EQ(ValidationCount(0, 0.5), 0);
}

}  // namespace
}  // namespace ddprun::trainer
