#include "launcher/top/top_text.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <random>

#include <nlohmann/json.hpp>

#include "base/flight_page.h"
#include "tests/launcher/hang/worker_activities.h"

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using Time = std::chrono::steady_clock::time_point;

// 2.5 s after the collectives of In() have begun.
const Time kNow(milliseconds(102'500));

RankSample Rank(WorkerActivity worker) {
  worker.place.state = worker.place.state == '?' ? 'S' : worker.place.state;
  return {.worker = std::move(worker), .memory = 3 << 20, .cpu_time = milliseconds(1500)};
}

RankSample InPhase(WorkerPhase phase, StepPhase step_phase) {
  RankSample rank = Rank(In(0, 9, CollectiveState::kCompleted));
  rank.worker.flight->phase = phase;
  rank.worker.flight->step_phase = step_phase;
  rank.worker.flight->step_phase_began = kNow - milliseconds(3200);
  return rank;
}

JobSample Job(std::vector<RankSample> ranks) {
  JobSample job;
  job.agent = 17;
  job.user = "ada";
  job.command = "ddprun --nproc_per_node=2 train.json";
  job.now = kNow;
  job.ranks = std::move(ranks);
  return job;
}

TEST(Doing, NamesTheCollectiveInWhichARankWaits) {
  RankSample rank = Rank(In(0, 418, CollectiveState::kWaiting));
  rank.worker.flight->collectives.back().bucket = 3;
  EXPECT_EQ(DoingText(rank, kNow), "waits 2.5 s in all_reduce 418, bucket 3");
  rank.worker.place.state = 'T';
  EXPECT_EQ(DoingText(rank, kNow), "is stopped by a signal");
}

TEST(Doing, NamesThePhase) {
  const auto text = [](WorkerPhase phase, StepPhase step_phase) {
    return DoingText(InPhase(phase, step_phase), kNow);
  };
  EXPECT_EQ(text(WorkerPhase::kTraining, StepPhase::kData), "waits 3.2 s for data");
  EXPECT_EQ(text(WorkerPhase::kTraining, StepPhase::kBackward), "computes backward 3.2 s");
  EXPECT_EQ(text(WorkerPhase::kTraining, StepPhase::kNone), "trains");
  EXPECT_EQ(text(WorkerPhase::kTraining, StepPhase::kSave), "saves 3.2 s");
  EXPECT_EQ(text(WorkerPhase::kEvaluating, StepPhase::kBetween), "evaluates");
  EXPECT_EQ(text(WorkerPhase::kFinishing, StepPhase::kBetween), "finishes");
}

TEST(Top, ShowsTheNumbersOfARun) {
  JobSample job = Job({InPhase(WorkerPhase::kTraining, StepPhase::kForward)});
  job.world_size = 4;
  job.restarts = 1;
  job.folder = "/home/ada/runs/toy";
  job.ranks[0].worker.flight->step = 350;
  job.ranks[0].worker.flight->run = RunProgress{2500, 1.8909, 412, 2};
  EXPECT_EQ(TopText({{job}}, {}),
            "17  ada  0:00:00  ddprun --nproc_per_node=2 train.json\n"
            "  step 350 of 2500  loss 1.8909  412 samples/s  1:11:42 left  1 of 4 ranks here  "
            "1 restart  /home/ada/runs/toy\n"
            " RANK      PID     STEP   CPU    MEMORY  DOES\n"
            "    0      100      350    0%     3 MiB  computes forward 3.2 s\n");
}

TEST(Top, WritesANumberThatIsNoneAsNull) {
  JobSample job = Job({InPhase(WorkerPhase::kTraining, StepPhase::kForward)});
  job.ranks[0].worker.flight->run =
      RunProgress{2500, std::numeric_limits<double>::quiet_NaN(), 412, 2};
  const auto json = nlohmann::json::parse(TopJson({{job}}));
  EXPECT_TRUE(json["jobs"][0]["loss"].is_null());
  EXPECT_EQ(json["jobs"][0]["samples_per_second"], 412);
}

TEST(Top, CutsCharactersAndNotBytes) {
  JobSample job = Job({});
  job.command = "ddprun \xC3\xA4\xC3\xA4\xC3\xA4.py";
  const std::string text = TopText({{job}}, {.columns = 26});
  EXPECT_EQ(text.substr(0, text.find('\n')), "17  ada  0:00:00  ddprun \xC3\xA4");
}

TEST(Shares, AreThoseSinceTheSampleOfBefore) {
  std::vector<JobSample> before = {Job({Rank(In(0, 1, CollectiveState::kStarted))})};
  std::vector<JobSample> now = before;
  now[0].now += std::chrono::seconds(2);
  now[0].ranks[0].cpu_time += std::chrono::seconds(1);
  MeasureSince(before, now);
  EXPECT_DOUBLE_EQ(now[0].ranks[0].cpu_share, 0.5);
}

// A worker may have overwritten its page.
TEST(Top, ShowsPagesOfAnyBytes) {
  const UniqueFd file = CreateFlightRecorderFile(1).value();
  auto* page = static_cast<char*>(
      ::mmap(nullptr, kFlightPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_NE(page, MAP_FAILED);
  const auto reader = FlightReader::Open(file).value();
  ASSERT_EQ(reader->count(), 1);
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    for (size_t at = 0; at < kFlightPageBytes; at += 8) {
      const uint64_t word =
          random() >> (random() % 64) & ~uint64_t{1};  // an even version is stable
      std::memcpy(page + at, &word, sizeof word);
    }
    std::memcpy(page, &kFlightMagic, sizeof kFlightMagic);
    JobSample job = Job({Rank({.pid = 100, .flight = reader->Read(0)})});
    job.world_size = job.ranks[0].worker.flight->world_size;
    EXPECT_NE(TopText({{job}}, {.columns = 80}), "");
    EXPECT_FALSE(nlohmann::json::parse(TopJson({{job}}))["jobs"].empty());
  }
  ::munmap(page, kFlightPageBytes);
}

}  // namespace
}  // namespace ddprun::launcher
