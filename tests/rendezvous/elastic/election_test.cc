// Hosts that vote: whatever is lost, late, repeated, cut off or started anew, two never lead at the
// same time, and one leads soon after the trouble ends.
#include "rendezvous/elastic/election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace ddprun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLease{15'000};

// One host. Its clock began at another time than those of the others, and may run faster or slower.
struct Host {
  std::unique_ptr<Voter> voter;
  std::unique_ptr<Campaign> campaign;
  double rate = 1;
  milliseconds offset{0};
  milliseconds frozen_until{0};
  int life = 0;  // counts its processes
  int turn = 0;  // counts its ballots

  ElectionTime Clock(milliseconds now) const {
    return ElectionTime(
        offset + milliseconds(static_cast<int64_t>(static_cast<double>(now.count()) * rate)));
  }
};

struct Message {
  milliseconds at{0};
  int to = 0;
  int from = 0;
  int life = 0;  // of the asking host
  int turn = 0;
  std::optional<Ballot> ballot = {};
  std::optional<Vote> vote = {};

  bool operator<(const Message& other) const { return at > other.at; }
};

class World {
 public:
  World(int hosts, unsigned seed) : random_(seed), hosts_(static_cast<size_t>(hosts)) {
    for (Host& host : hosts_) {
      host.rate = 1 + 0.0001 * Pick(-200, 200);
      host.offset = milliseconds(Pick(100'000, 9'000'000));
    }
  }

  uint64_t Id() { return uint64_t{random_()} << 32 | random_(); }
  int Pick(int least, int most) { return std::uniform_int_distribution<>(least, most)(random_); }
  Host& host(int i) { return hosts_[static_cast<size_t>(i)]; }
  int size() const { return static_cast<int>(hosts_.size()); }

  void Start(int i) {
    Host& one = host(i);
    ++one.life;
    one.voter = std::make_unique<Voter>(Id(), one.Clock(now));
    one.campaign = std::make_unique<Campaign>(
        Campaign::Rules{.job = "job", .own = i, .hosts = size(), .lease = kLease, .process = Id()});
  }

  void Stop(int i) {
    host(i).voter.reset();
    host(i).campaign.reset();
  }

  bool Leads(int i) { return host(i).campaign && host(i).campaign->Leads(host(i).Clock(now)); }
  int num_leaders() {
    int leaders = 0;
    for (int i = 0; i < size(); ++i) leaders += Leads(i) ? 1 : 0;
    return leaders;
  }

  // Time passes, step by step.
  void Run(milliseconds time) {
    for (const milliseconds end = now + time; now < end; now += milliseconds(10)) {
      while (!messages_.empty() && messages_.top().at <= now) {
        const Message message = messages_.top();
        messages_.pop();
        Deliver(message);
      }
      for (int i = 0; i < size(); ++i) {
        if (!host(i).campaign || now < host(i).frozen_until) continue;
        Send(i, host(i).campaign->OnTime(host(i).Clock(now)));
      }
      ASSERT_LE(num_leaders(), 1) << "at " << now.count() << " ms";
      if (num_leaders() == 0) without_leader += milliseconds(10);
    }
  }

  milliseconds now{0};
  milliseconds without_leader{0};
  int lost_percent = 0;
  int most_delay = 3;                            // ms
  std::vector<bool> cut = std::vector<bool>(9);  // hosts on the other side of a partition

 private:
  void Send(int from, std::optional<Ballot> ballot) {
    if (!ballot) return;
    ++host(from).turn;
    for (int to = 0; to < size(); ++to) {
      Post({.at = now,
            .to = to,
            .from = from,
            .life = host(from).life,
            .turn = host(from).turn,
            .ballot = ballot});
    }
  }

  void Post(Message message) {
    const bool own = message.to == message.from;
    const auto side = [this](int i) { return cut[static_cast<size_t>(i)]; };
    if (!own && (side(message.to) != side(message.from) || Pick(0, 99) < lost_percent)) return;
    message.at = now + milliseconds(own ? 0 : Pick(0, most_delay));
    messages_.push(message);
    // The network repeats some, much later.
    if (lost_percent > 0 && Pick(0, 19) == 0) {
      message.at += milliseconds(Pick(0, 3 * int(kLease.count())));
      messages_.push(message);
    }
  }

  void Deliver(Message message) {
    Host& to = host(message.to);
    if (!to.voter) return;
    if (now < to.frozen_until) {
      message.at = to.frozen_until;
      return messages_.push(message);
    }
    if (message.ballot) {
      const Vote vote = to.voter->OnBallot(*message.ballot, to.Clock(now));
      return Post({.at = now,
                   .to = message.from,
                   .from = message.to,
                   .life = message.life,
                   .turn = message.turn,
                   .vote = vote});
    }
    if (message.life != to.life || message.turn != to.turn) return;
    Send(message.to, to.campaign->OnVote(message.from, *message.vote, to.Clock(now)));
  }

  std::mt19937 random_;
  std::vector<Host> hosts_;
  std::priority_queue<Message> messages_;
};

TEST(Election, ANewJobHasALeaderAtOnce) {
  for (unsigned seed = 0; seed < 90; ++seed) {
    SCOPED_TRACE(seed);
    const int hosts = seed % 3 == 0 ? 3 : seed % 3 == 1 ? 5 : 9;
    World world(hosts, seed);
    for (int i = 0; i < hosts; ++i) {
      world.Start(i);
      if (seed >= 30) world.Run(milliseconds(world.Pick(0, 500)));
    }
    world.without_leader = milliseconds(0);
    world.Run(seconds(4));
    EXPECT_EQ(world.num_leaders(), 1);
    EXPECT_LE(world.without_leader, seconds(3));
    if (seed < 3) world.Run(seconds(600));
    EXPECT_LE(world.without_leader, seconds(3)) << "the leader stays";
  }
}

TEST(Election, SlowHostsHaveALeaderSoon) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed % 2 == 0 ? 3 : 5, seed);
    world.most_delay = 400;
    for (int i = 0; i < world.size(); ++i) world.Start(i);
    world.Run(seconds(60));
    EXPECT_EQ(world.num_leaders(), 1);
    EXPECT_LE(world.without_leader, seconds(20));
  }
}

TEST(Election, WithAHostMissingTheLeaderComesAfterALease) {
  World world(3, 1);
  world.Start(0);
  world.Start(2);
  world.Run(kLease - seconds(1));
  EXPECT_EQ(world.num_leaders(), 0);
  world.Run(seconds(4));
  EXPECT_EQ(world.num_leaders(), 1);
}

TEST(Election, AMinorityChoosesNobody) {
  World world(3, 1);
  for (int i = 0; i < 3; ++i) world.Start(i);
  world.Run(seconds(10));
  const int leader = world.Leads(0) ? 0 : world.Leads(1) ? 1 : 2;
  world.cut[static_cast<size_t>(leader)] = true;
  world.Run(3 * kLease);
  EXPECT_EQ(world.num_leaders(), 1);
  EXPECT_FALSE(world.Leads(leader));
  world.Stop(leader);
  world.Stop((leader + 1) % 3);
  world.Run(5 * kLease);
  EXPECT_EQ(world.num_leaders(), 0);
}

TEST(Election, AnyScheduleHasAtMostOneLeaderAndOneInTheEnd) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed % 3 == 0 ? 5 : 3, seed);
    for (int i = 0; i < world.size(); ++i) {
      if (world.Pick(0, 9) > 0) world.Start(i);
    }
    for (int event = 0; event < 30; ++event) {
      const int i = world.Pick(0, world.size() - 1);
      switch (world.Pick(0, 6)) {
        case 0:
          world.Stop(i);
          break;
        case 1:
          world.Start(i);  // forgets everything
          break;
        case 2:
          world.host(i).frozen_until = world.now + milliseconds(world.Pick(0, 60'000));
          break;
        case 3:
          for (int one = 0; one < 9; ++one) world.cut[size_t(one)] = world.Pick(0, 2) == 0;
          break;
        case 4:
          world.lost_percent = world.Pick(0, 60);
          break;
        case 5:
          world.most_delay = world.Pick(0, 1) == 0 ? 3 : world.Pick(3, 20'000);
          break;
        default:
          break;
      }
      world.Run(milliseconds(world.Pick(0, 12'000)));
      if (HasFatalFailure()) return;
    }
    world.lost_percent = 0;
    world.most_delay = 3;
    world.cut.assign(9, false);
    for (int i = 0; i < world.size(); ++i) {
      world.host(i).frozen_until = world.now;
      if (!world.host(i).campaign) world.Start(i);
    }
    world.Run(6 * kLease);
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(world.num_leaders(), 1);
  }
}

TEST(Election, StrangersCannotFillTheMemoryOfAHost) {
  Voter voter(1, ElectionTime());
  const ElectionTime now = ElectionTime() + seconds(3600);
  const auto ask = [&](int i, ElectionTime at) {
    return voter
        .OnBallot({.kind = Ballot::Kind::kLead,
                   .job = std::to_string(i),
                   .epoch = 1,
                   .lease = seconds(1)},
                  at)
        .granted;
  };
  for (int i = 0; i < 10'000; ++i) ask(i, now);
  EXPECT_LE(voter.num_jobs(), 1000U);
  EXPECT_FALSE(ask(20'000, now));
  EXPECT_TRUE(ask(20'000, now + seconds(1)));
}

}  // namespace
}  // namespace ddprun::rendezvous
