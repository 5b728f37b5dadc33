// The rendezvous's name has no address yet, as if a pod is just being started.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <limits>
#include <string_view>

#include "tests/rendezvous/elastic/elastic_nodes.h"

namespace {

constexpr const char* kName = "late.ddprun.test";
std::atomic<int> look_ups_in_vain = 0;  // that are still to come

}  // namespace

// Instead of the C library's, in this program.
extern "C" int getaddrinfo(const char* host,
                           const char* service,
                           const addrinfo* hints,
                           addrinfo** found) {
  static const auto system =
      reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::string_view(host) != kName) {
    return system(host, service, hints, found);
  }
  return look_ups_in_vain-- > 0 ? EAI_NONAME : system("127.0.0.1", service, hints, found);
}

namespace ddprun::rendezvous {
namespace {

using testing::HasSubstr;
using testing::Not;

class LateName : public ElasticNodesTest {
 protected:
  RendezvousOptions LateOptions(int nodes) {
    RendezvousOptions options = Options(nodes, nodes);
    options.endpoint.host = kName;
    return options;
  }
};

TEST_F(LateName, IsHostedByItsNodeWhenItHasAnAddress) {
  look_ups_in_vain = 5;
  for (const char* name : {"a", "b"}) Start(name, LateOptions(2));
  RunUntil([&] { return AllRun(); });
  ExpectOneWorld();
}

TEST_F(LateName, ThatNeverHasAnAddressIsNotSaidToBeAnotherNodes) {
  look_ups_in_vain = std::numeric_limits<int>::max();
  RendezvousOptions options = LateOptions(1);
  options.rules.join_timeout = std::chrono::milliseconds(100);
  Node& node = Start("a", options);
  RunUntil([&] { return node.joined.has_value(); });
  ASSERT_FALSE(node.joined->has_value());
  EXPECT_EQ(node.joined->error().page, "no-rendezvous");
  EXPECT_THAT(node.joined->error().what, HasSubstr(std::string(kName) + " has no address"));
  EXPECT_THAT(node.joined->error().hint, Not(HasSubstr("no interface")));
}

}  // namespace
}  // namespace ddprun::rendezvous
