#include "base/json_of_stranger.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

std::string Nested(size_t levels) {
  return std::string(levels, '[') + "1" + std::string(levels, ']');
}

TEST(JsonOfStranger, IsReadUpToItsDepth) {
  const auto deepest = static_cast<size_t>(kMaxJsonDepth);
  EXPECT_EQ(ParseJsonOfStranger(Nested(deepest)).dump(), Nested(deepest));
  EXPECT_TRUE(ParseJsonOfStranger(Nested(deepest + 1)).is_discarded());
  EXPECT_TRUE(ParseJsonOfStranger(Nested(1'000'000)).is_discarded());
  EXPECT_TRUE(ParseJsonOfStranger("{\"a\": [{\"b\": " + Nested(60'000) + "}]}").is_discarded());
}

TEST(JsonOfStranger, IsDiscardedWhereItIsNoneOrTooLong) {
  for (const char* text : {"", "{", "[1,]", "[[[", "1 2"}) {
    EXPECT_TRUE(ParseJsonOfStranger(text).is_discarded()) << text;
  }
  const std::string longest(kMaxStrangersBytes - 2, 'x');
  EXPECT_TRUE(ParseJsonOfStranger('"' + longest + '"').is_string());
  EXPECT_TRUE(ParseJsonOfStranger('"' + longest + "x\"").is_discarded());
}

TEST(FileOfStranger, IsARegularOneOfALimitedLength) {
  const std::string path = testing::TempDir() + "file_of_stranger." + std::to_string(::getpid());
  EXPECT_FALSE(ReadFileOfStranger(path));
  EXPECT_FALSE(ReadFileOfStranger("/dev/zero"));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(ReadFileOfStranger(path));
  ::unlink(path.c_str());
  std::ofstream(path) << "text";
  EXPECT_EQ(ReadFileOfStranger(path), "text");
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(kMaxStrangersBytes) + 1), 0);
  EXPECT_FALSE(ReadFileOfStranger(path));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace ddprun
