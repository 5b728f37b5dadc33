#include "launcher/output/group_output.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "tests/launcher/output/pipe.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class GroupOutputTest : public testing::Test {
 protected:
  GroupOutput Make(GroupOutputPlan plan) {
    return {io_, console_, std::move(plan), [](const std::string&) {}};
  }
  // Files are written on a thread of their own.
  void WaitForFiles() {
    io_.restart();
    console_.files().WhenEmpty([this] { io_.stop(); });
    io_.run();
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  TempFolder folder_;
  asio::io_context io_;
  Pipe out_;
  Pipe err_;
  Console console_{io_, out_.write_end.get(), err_.write_end.get()};
};

TEST_F(GroupOutputTest, LeavesAnInheritedStreamAlone) {
  GroupOutput output = Make({.workers = {{.out = {.route = Route::kInherit}, .err = {}}}});
  const Result<WorkerFds> fds = output.Open(0);
  ASSERT_TRUE(fds);
  EXPECT_FALSE(fds->out.valid());
  EXPECT_TRUE(fds->err.valid());
}

TEST_F(GroupOutputTest, ShowsEachStreamOnItsOwn) {
  GroupOutput output = Make({.workers = {{.out = {.label = "[0] "}, .err = {}}}});
  Result<WorkerFds> fds = output.Open(0);
  ASSERT_TRUE(fds);
  WriteText(fds->out.get(), "to out\n");
  WriteText(fds->err.get(), "to err\n");
  output.Finish();
  EXPECT_EQ(Written(out_), "[0] to out\n");
  EXPECT_EQ(Written(err_), "to err\n");
  EXPECT_EQ(output.bytes_seen(0), 14U);
}

TEST_F(GroupOutputTest, LetsAWorkerWriteItsFileItself) {
  const StreamPlan plan{.route = Route::kFile, .file = Path("log"), .shown = false};
  GroupOutput output = Make({.workers = {{.out = {}, .err = plan}}});
  Result<WorkerFds> fds = output.Open(0);
  ASSERT_TRUE(fds);
  WriteText(fds->err.get(), "one\ntwo\n");
  output.Finish();
  EXPECT_EQ(Content(Path("log")), "one\ntwo\n");
  EXPECT_EQ(Written(err_), "");
  EXPECT_THAT(output.LastErrorLines(0), ElementsAre("one", "two"));
  EXPECT_EQ(output.bytes_seen(0), 8U);
}

TEST_F(GroupOutputTest, CopiesToAFileWithoutTheLabel) {
  GroupOutput output =
      Make({.workers = {{.out = {.file = Path("log"), .label = "[default0]:"}, .err = {}}}});
  Result<WorkerFds> fds = output.Open(0);
  ASSERT_TRUE(fds);
  WriteText(fds->out.get(), "one\nhalf");
  output.Finish();
  WaitForFiles();
  EXPECT_EQ(Content(Path("log")), "one\nhalf");
  EXPECT_EQ(Written(out_), "[default0]:one\n[default0]:half");
}

TEST_F(GroupOutputTest, KeepsTheLastLinesOfARankThatIsNotShown) {
  GroupOutput output = Make({.workers = {{.out = {.shown = false}, .err = {.shown = false}}}});
  Result<WorkerFds> fds = output.Open(0);
  ASSERT_TRUE(fds);
  WriteText(fds->out.get(), "out\n");
  WriteText(fds->err.get(), "why\n");
  output.Finish();
  EXPECT_EQ(Written(out_) + Written(err_), "");
  EXPECT_THAT(output.LastErrorLines(0), ElementsAre("why"));
  EXPECT_EQ(output.bytes_seen(0), 8U);
}

TEST_F(GroupOutputTest, CollectsMatchingLinesOfAllRanks) {
  const auto worker = [this](int rank) {
    const std::string number = std::to_string(rank);
    return WorkerOutputPlan{.out = {.file = Path(number), .label = number + ":", .filtered = true},
                            .err = {}};
  };
  GroupOutput output = Make({.workers = {worker(0), worker(1)},
                             .filtered_out = {.file = Path("filtered"), .needles = {"loss"}}});
  for (const int rank : {0, 1}) {
    Result<WorkerFds> fds = output.Open(rank);
    ASSERT_TRUE(fds);
    WriteText(fds->out.get(), "hello\nloss 1\nlast loss");
    fds->out.reset();
  }
  output.Finish();
  WaitForFiles();
  EXPECT_EQ(Content(Path("filtered")), "0:loss 1\n0:last loss\n1:loss 1\n1:last loss\n");
}

TEST_F(GroupOutputTest, HoldsAWorkerBackWhoseFileTakesNoMore) {
  ASSERT_EQ(::mkfifo(Path("stalled").c_str(), 0600), 0);
  const UniqueFd reader(::open(Path("stalled").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  GroupOutput output =
      Make({.workers = {{.out = {.file = Path("stalled"), .shown = false}, .err = {}}}});
  Result<WorkerFds> fds = output.Open(0);
  ASSERT_TRUE(fds);
  ::fcntl(fds->out.get(), F_SETFL, O_NONBLOCK);
  const std::string piece(64 << 10, 'x');
  size_t written = 0;
  for (int turn = 0; turn < 200; ++turn) {
    const ssize_t got = ::write(fds->out.get(), piece.data(), piece.size());
    if (got > 0) written += static_cast<size_t>(got);
    io_.poll();
  }
  EXPECT_LT(written, size_t{4} << 20);
  fds->out.reset();
  // All of it comes once the file takes it.
  std::thread drain([&] {
    ::fcntl(reader.get(), F_SETFL, 0);
    for (size_t left = written; left > 0;) {
      char buffer[64 << 10];
      const ssize_t got = ::read(reader.get(), buffer, sizeof buffer);
      if (got > 0) left -= static_cast<size_t>(got);
    }
  });
  while (output.bytes_seen(0) < written) io_.run_one();
  WaitForFiles();
  drain.join();
}

TEST_F(GroupOutputTest, SaysWhichFileCannotBeOpened) {
  const StreamPlan plan{.route = Route::kFile, .file = Path("absent/log"), .shown = false};
  GroupOutput output = Make({.workers = {{.out = plan, .err = {}}}});
  const Result<WorkerFds> fds = output.Open(0);
  ASSERT_FALSE(fds);
  EXPECT_EQ(fds.error().where, Path("absent/log"));
}

}  // namespace
}  // namespace ddprun::launcher
