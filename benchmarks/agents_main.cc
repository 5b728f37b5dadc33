// Nodes for benchmarks/agents.py: OWN of the ALL agents of a c10d job meet at a coordinator, LOST
// of these are lost at once, and the others meet again, ALL_LEFT of the whole job. Each has the
// rendezvous of a real agent, with its connections and messages; all of them share one thread and
// have no workers.
//
//   ddp-agents PORT ALL ALL_LEFT OWN LOST [count]
//
// Waits for a line on stdin before each of the two rounds. Prints a line of JSON for each: when it
// began and was there, in seconds of CLOCK_MONOTONIC, the ranks, and, with "count", the number of
// messages between nodes and coordinator, which takes time to count.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "rendezvous/backends.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using Clock = std::chrono::steady_clock;

// The coordinator waits so long for late nodes once there are enough.
constexpr std::chrono::milliseconds kLastCall{200};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "ddp-agents: %s\n", what.c_str());
  std::exit(1);
}

class Job {
 public:
  Job(uint16_t port, int all, int all_left, int own, bool counts)
      : nodes_(static_cast<size_t>(own)), places_(static_cast<size_t>(own)) {
    options_.run_id = "agents";
    options_.rules.min_nodes = all_left;
    options_.rules.max_nodes = all;
    options_.rules.last_call_timeout = kLastCall;
    options_.endpoint = {"127.0.0.1", port};
    options_.is_host = false;
    if (counts) options_.on_debug = [this](const std::string&) { ++messages_; };
  }

  void Form() {
    const auto begin = Clock::now();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Result<std::shared_ptr<Rendezvous>> made = kElasticBackend.make(io_, options_);
      if (!made.has_value()) Fail(made.error().what);
      nodes_[i] = *std::move(made);
      Join(i);
      io_.poll();
    }
    RunUntilAllAreIn(nodes_.size(), begin);
  }

  // The nodes are gone from one instant to the next; the others notice, and meet again.
  void Lose(size_t lost) {
    const auto begin = Clock::now();
    in_ = 0;
    for (size_t i = 0; i < lost; ++i) nodes_[(i + 1) * nodes_.size() / (lost + 1)].reset();
    RunUntilAllAreIn(nodes_.size() - lost, begin);
  }

 private:
  void Join(size_t i) {
    nodes_[i]->Join([this, i](Result<Membership> joined) {
      if (!joined.has_value()) Fail(joined.error().what);
      places_[i] = *joined;
      ++in_;
      nodes_[i]->WatchRound([this, i](const RoundEnd& end) {
        if (end.kind != RoundEnd::Kind::kRegroup) Fail("the job failed: " + end.message);
        Join(i);
      });
    });
  }

  void RunUntilAllAreIn(size_t expected, Clock::time_point begin) {
    while (in_ < expected) io_.run_one();
    std::string ranks;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] == nullptr) continue;
      ranks += (ranks.empty() ? "" : ",") + std::to_string(places_[i].node_rank);
    }
    std::printf("{\"begin\": %.6f, \"end\": %.6f, \"messages\": %lld, \"ranks\": [%s]}\n",
                Seconds(begin), Seconds(Clock::now()),
                static_cast<long long>(std::exchange(messages_, 0)), ranks.c_str());
    std::fflush(stdout);
  }

  static double Seconds(Clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
  }

  asio::io_context io_;
  RendezvousOptions options_;
  std::vector<std::shared_ptr<Rendezvous>> nodes_;
  std::vector<Membership> places_;  // by node, of its last round
  size_t in_ = 0;                   // nodes in the current round
  int64_t messages_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) Fail("usage: ddp-agents PORT ALL ALL_LEFT OWN LOST [count]");
  const auto number = [argv](int i) { return std::atoi(argv[i]); };
  Job job(static_cast<uint16_t>(number(1)), number(2), number(3), number(4), argc > 6);
  std::getchar();
  job.Form();
  std::getchar();
  job.Lose(static_cast<size_t>(number(5)));
  std::getchar();
  std::_Exit(0);  // frees nothing: the kernel closes the connections
}
