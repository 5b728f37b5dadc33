// loop.tensorboard reads whole files with TensorBoard itself.
#include "trainer/report/tensorboard_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/trainer/report/noted_lines.h"
#include "tests/trainer/report/scratch_folder.h"

namespace ddprun::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using TensorboardFileTest = ScratchFolder;

// The first record of a file of TensorBoard's own writer at time 1.
TEST(TensorboardRecord, HasTheChecksumsOfTensorBoard) {
  const std::string event(
      "\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
      "brain.Event:2",
      24);
  const std::string record = TensorboardRecord(event);
  EXPECT_EQ(record, std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12) + event +
                        std::string("\x86\xbf\x57\x7a", 4));
}

TEST_F(TensorboardFileTest, WarnsOnceAndGoesOnWhereItCannotWrite) {
  std::ofstream(folder_ + "/tensorboard") << "a file";
  NotedLines notes;
  TensorboardFile file(folder_, notes);
  file.OnBegin(RunHeader(), ReportTime::Now());
  for (int64_t step = 1; step <= 3; ++step) {
    file.OnStep({.step = step, .reported = true}, ReportTime::Now());
  }
  EXPECT_THAT(notes.lines, ElementsAre(HasSubstr("numbers for TensorBoard are being lost")));
  EXPECT_EQ(Contents(folder_ + "/tensorboard"), "a file");
}

// A file-size limit acts like a full disk: the write fails, after some of its bytes.
TEST_F(TensorboardFileTest, KeepsWholeRecordsWhenADiskIsFull) {
  NotedLines notes;
  TensorboardFile file(folder_, notes);
  file.OnBegin(RunHeader(), ReportTime::Now());
  const auto written = std::filesystem::directory_iterator(folder_ + "/tensorboard")->path();
  const uintmax_t before = std::filesystem::file_size(written);
  struct rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit full = {before + 10, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int64_t step = 1; step <= 3; ++step) {
    file.OnStep({.step = step, .reported = true}, ReportTime::Now());
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(std::filesystem::file_size(written), before);
  EXPECT_EQ(notes.lines.size(), 1U);
  file.OnStep({.step = 4, .reported = true}, ReportTime::Now());
  EXPECT_GT(std::filesystem::file_size(written), before);
}

}  // namespace
}  // namespace ddprun::trainer
