#include "rendezvous/net/socket_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun::rendezvous {
namespace {

using testing::IsEmpty;

constexpr const char* kHeader =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

TEST(SocketTable, ReadsBothEndsAndTheInode) {
  const auto entries = ParseSocketTable(
      std::string(kHeader) +
      "   2: 0100007F:733C 0200007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 "
      "54321 1 0000000000000000 20 4 30 10 -1\n");
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].local, "127.0.0.1:29500");
  EXPECT_EQ(entries[0].remote, "127.0.0.2:40000");
  EXPECT_EQ(entries[0].inode, 54321);
}

TEST(SocketTable, WritesAnIpv4AddressInIpv6ClothesAsIpv4) {
  const auto entries = ParseSocketTable(
      "   0: 0000000000000000FFFF00000100007F:9C40 00000000000000000000000001000000:733C 01 "
      "00000000:00000000 00:00000000 00000000     0        0 7 1 0 20 4 0 10 -1\n");
  ASSERT_EQ(entries.size(), 1);
  EXPECT_EQ(entries[0].local, "127.0.0.1:40000");
  EXPECT_EQ(entries[0].remote, "[::1]:29500");
}

TEST(SocketTable, SaysHowOftenLostDataWereSentAgain) {
  const std::string line =
      "   0: 0100007F:9C40 0200007F:733C 01 000004D2:00000007 01:00000019 0000000B  1000        0 "
      "7 1";
  const auto resending = ParseSocketTable(line);
  ASSERT_EQ(resending.size(), 1);
  EXPECT_EQ(resending[0].unacknowledged, 1234);
  EXPECT_EQ(resending[0].resends, 11);
  // Timer 4 asks a receiver that is full, and such a link is not dead.
  std::string full = line;
  full.replace(full.find(" 01:0"), 4, " 04:");
  ASSERT_EQ(ParseSocketTable(full).size(), 1);
  EXPECT_EQ(ParseSocketTable(full)[0].resends, 0);
}

TEST(SocketTable, LeavesOutWhatItCannotRead) {
  EXPECT_THAT(ParseSocketTable(""), IsEmpty());
  EXPECT_THAT(ParseSocketTable("\n\n   1: 0100007F"), IsEmpty());
  EXPECT_THAT(ParseSocketTable("  1: 0100007F:GGGG 0100007F:0001 01 0 0 0 0 0 9\n"), IsEmpty());
  EXPECT_THAT(ParseSocketTable("  1: 01007F:0001 0100007F:0001 01 0 0 0 0 0 9\n"), IsEmpty());
}

TEST(SocketTable, SeesThisMachinesSockets) {
  for (const SocketEntry& entry : ReadSocketTable()) {
    EXPECT_NE(entry.local.find(':'), std::string::npos);
  }
}

}  // namespace
}  // namespace ddprun::rendezvous
