#include <gmock/gmock.h>

#include <thread>

#include "base/cpus.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CpuList, IsReadAsTheKernelWritesIt) {
  EXPECT_THAT(ParseCpuList("0-2,5,8-9"), ElementsAre(0, 1, 2, 5, 8, 9));
  EXPECT_THAT(ParseCpuList(""), IsEmpty());
}

TEST(CpuList, IsWrittenWithRanges) {
  EXPECT_EQ(FormatCpuList({0, 1, 2, 5, 8, 9}), "0-2,5,8-9");
  EXPECT_EQ(FormatCpuList({}), "");
}

TEST(CpuList, RestrictsTheThreadThatAsks) {
  const int first = *AllowedCpus().begin();
  std::thread([first] {
    EXPECT_TRUE(StayOnCpus({first}).ok());
    EXPECT_THAT(AllowedCpus(), ElementsAre(first));
  }).join();
  EXPECT_FALSE(StayOnCpus({}).ok());
}

}  // namespace
}  // namespace ddprun
