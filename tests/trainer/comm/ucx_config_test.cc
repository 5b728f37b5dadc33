// The settings that UCX gets from ddprun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/comm/net/ucx_transport.h"

namespace ddprun::trainer {
namespace {

using testing::Contains;
using testing::Key;
using testing::Pair;

std::map<std::string, std::string> settings;
const UcxApi* real = nullptr;

ucs_status_t Note(ucp_config_t* config, const char* name, const char* value) {
  settings[name] = value;
  return real->config_modify(config, name, value);
}

// Opens a transport with the real UCX, which accepts the settings.
std::map<std::string, std::string> SettingsOf(const std::vector<std::string>& devices) {
  settings.clear();
  const Result<const UcxApi*> loaded = LoadUcx();
  if (!loaded) throw std::runtime_error(loaded.error().what);
  real = *loaded;
  UcxApi noted = *real;
  noted.config_modify = Note;
  UcxTransport transport(noted, 0, std::chrono::nanoseconds(0));
  const Status opened = transport.Open(devices);
  EXPECT_TRUE(opened.ok()) << opened.error().what;
  return settings;
}

// A rank's messages are in the host's memory. UCX would open each GPU of the machine in each rank.
TEST(UcxConfig, LeavesGpusAndSharedMemoryAlone) {
  EXPECT_THAT(SettingsOf({"lo"}), Contains(Pair("TLS", "^sm,cuda")));
}

TEST(UcxConfig, NamesTheNetworkDevices) {
  EXPECT_THAT(SettingsOf({"lo"}), Contains(Pair("NET_DEVICES", "lo")));
}

TEST(UcxConfig, LeavesWhatTheUserSays) {
  ::setenv("UCX_TLS", "tcp", 1);
  const auto found = SettingsOf({"lo"});
  ::unsetenv("UCX_TLS");
  EXPECT_THAT(found, testing::Not(Contains(Key("TLS"))));
}

}  // namespace
}  // namespace ddprun::trainer
