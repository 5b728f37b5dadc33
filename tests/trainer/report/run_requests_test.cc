#include "trainer/report/run_requests.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/trainer/report/scratch_folder.h"

namespace ddprun::trainer {
namespace {

namespace fs = std::filesystem;

class RunRequestsTest : public ScratchFolder {};

TEST_F(RunRequestsTest, AreRemovedWhenTheyAreDone) {
  std::ofstream(folder_ + "/save").close();
  RunRequests requests(folder_);
  EXPECT_TRUE(requests.Look().save);
  EXPECT_FALSE(requests.Look().stop);
  requests.NoteSave();
  EXPECT_FALSE(fs::exists(folder_ + "/save"));
  EXPECT_FALSE(requests.Look().save);
}

TEST_F(RunRequestsTest, ThatWereNotSeenYetStay) {
  RunRequests requests(folder_);
  EXPECT_FALSE(requests.Look().save);
  std::ofstream(folder_ + "/save").close();
  requests.NoteSave();  // of a state from before the request
  EXPECT_TRUE(fs::exists(folder_ + "/save"));
}

TEST_F(RunRequestsTest, ForTheEndStayUntilTheEnd) {
  std::ofstream(folder_ + "/stop").close();
  RunRequests requests(folder_);
  EXPECT_TRUE(requests.Look().stop);
  requests.NoteSave();
  EXPECT_TRUE(fs::exists(folder_ + "/stop"));
  EXPECT_TRUE(requests.StopText().ends_with(" asked for it (" + folder_ + "/stop)"));
  requests.Remove();
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(RunRequestsTest, AreNoFoldersAndNoLinks) {
  fs::create_directory(folder_ + "/save");
  fs::create_symlink("/etc/passwd", folder_ + "/stop");
  RunRequests requests(folder_);
  const RunRequests::Asked asked = requests.Look();
  EXPECT_FALSE(asked.save || asked.stop);
  requests.Remove();
  EXPECT_TRUE(fs::is_symlink(folder_ + "/stop") && fs::exists(folder_ + "/save"));
}

}  // namespace
}  // namespace ddprun::trainer
