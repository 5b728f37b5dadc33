#include "base/byte_characters.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

TEST(ByteCharacters, CarryAnyBytesThroughJson) {
  std::string bytes;
  for (int number = 0; number < 256; ++number) bytes += static_cast<char>(number);
  const nlohmann::json sent = CharactersOfBytes(bytes);
  EXPECT_EQ(BytesOfCharacters(nlohmann::json::parse(sent.dump()).get<std::string>()), bytes);
  EXPECT_EQ(CharactersOfBytes("NAME=value"), "NAME=value");
  EXPECT_EQ(CharactersOfBytes("r\xe9"), "r\xc3\xa9");  // as Python's bytes.decode("latin-1")
}

}  // namespace
}  // namespace ddprun
