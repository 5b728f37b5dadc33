#include "launcher/report/peer_message.h"

#include <gtest/gtest.h>

namespace ddprun::launcher {
namespace {

TEST(PeerMessage, IsReadAsItWasWritten) {
  const PeerMessage message = DecodePeerMessage(EncodePeerMessage({42, "rank 1 \"failed\"\n"}));
  EXPECT_EQ(message.exit_code, 42);
  EXPECT_EQ(message.text, "rank 1 \"failed\"\n");
}

TEST(PeerMessage, TakesForeignTextAsItIs) {
  for (const char* text : {"node 1 is gone", "", "{}", "[1]", "{\"exit_code\": \"7\"}"}) {
    EXPECT_EQ(DecodePeerMessage(text).exit_code, 1) << text;
    EXPECT_EQ(DecodePeerMessage(text).text, text);
  }
}

TEST(PeerMessage, NeverMeansSuccess) {
  EXPECT_EQ(DecodePeerMessage(R"({"exit_code": 0, "text": "x"})").exit_code, 1);
  EXPECT_EQ(DecodePeerMessage(R"({"exit_code": 256, "text": "x"})").exit_code, 1);
}

}  // namespace
}  // namespace ddprun::launcher
