#include "base/untrusted_json.h"

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

TEST(UntrustedJson, IsReadUpToItsDepth) {
  const auto deepest = static_cast<size_t>(kMaxJsonDepth);
  EXPECT_EQ(ParseUntrustedJson(Nested(deepest)).dump(), Nested(deepest));
  EXPECT_TRUE(ParseUntrustedJson(Nested(deepest + 1)).is_discarded());
  EXPECT_TRUE(ParseUntrustedJson(Nested(1'000'000)).is_discarded());
  EXPECT_TRUE(ParseUntrustedJson("{\"a\": [{\"b\": " + Nested(60'000) + "}]}").is_discarded());
}

TEST(UntrustedJson, IsDiscardedWhereItIsNoneOrTooLong) {
  for (const char* text : {"", "{", "[1,]", "[[[", "1 2"}) {
    EXPECT_TRUE(ParseUntrustedJson(text).is_discarded()) << text;
  }
  const std::string longest(kMaxUntrustedBytes - 2, 'x');
  EXPECT_TRUE(ParseUntrustedJson('"' + longest + '"').is_string());
  EXPECT_TRUE(ParseUntrustedJson('"' + longest + "x\"").is_discarded());
}

TEST(UntrustedFile, IsARegularOneOfALimitedLength) {
  const std::string path = testing::TempDir() + "file_of_stranger." + std::to_string(::getpid());
  EXPECT_FALSE(ReadUntrustedFile(path));
  EXPECT_FALSE(ReadUntrustedFile("/dev/zero"));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(ReadUntrustedFile(path));
  ::unlink(path.c_str());
  std::ofstream(path) << "text";
  EXPECT_EQ(ReadUntrustedFile(path), "text");
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(kMaxUntrustedBytes) + 1), 0);
  EXPECT_FALSE(ReadUntrustedFile(path));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace ddprun
