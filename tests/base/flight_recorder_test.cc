#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/flight_notes.h"
#include "base/flight_page.h"
#include "base/flight_reader.h"
#include "base/span_log.h"
#include "base/step_phase.h"

namespace ddprun {
namespace {

class FlightRecorderTest : public testing::Test {
 protected:
  FlightRecorderTest() : file_(*CreateFlightRecorderFile(2)) {}

  std::unique_ptr<FlightRecorder> Attach(int local_rank, int rank) {
    return *FlightRecorder::Attach(file_, local_rank, rank);
  }
  std::optional<FlightSnapshot> Read(int local_rank) {
    return (*FlightReader::Open(file_, 2))->Read(local_rank);
  }

  std::string Gpu(int local_rank) { return (*FlightReader::Open(file_, 2))->ReadGpu(local_rank); }

  UniqueFd file_;
};

constexpr Collective kGradients{
    .kind = CollectiveKind::kAllReduce, .type = "bfloat16", .elements = 1000, .bytes = 2000};

TEST_F(FlightRecorderTest, HasNothingToTellOfAWorkerThatHasNotAttachedItself) {
  const auto recorder = Attach(0, 6);
  EXPECT_FALSE(Read(1).has_value());
  const std::optional<FlightSnapshot> other = Read(0);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->rank, 6);
  EXPECT_EQ(other->pid, getpid());
  EXPECT_EQ(other->phase, WorkerPhase::kStarting);
  EXPECT_TRUE(other->collectives.empty());
}

TEST_F(FlightRecorderTest, TellsOfAProcessThatAnotherOneReplaces) {
  const auto other = Attach(1, 7);
  {
    const auto lost = Attach(0, 6);
    lost->SetStep(57);
    lost->SetRecoveryGeneration(0);
    lost->Schedule(kGradients);
    lost->NoteLine("its last words");
  }
  EXPECT_EQ(Read(0)->recovery_generation, 0);
  EXPECT_EQ(Read(1)->recovery_generation, std::nullopt);
  // A page that its worker has written over.
  for (const uint64_t wild : {uint64_t{0x80000000}, ~uint64_t{0}}) {
    void* page = *MapFlightPages(file_, 1, 1, PROT_READ | PROT_WRITE);
    Put(static_cast<FlightPage*>(page)->recovery_generation, wild);
    EXPECT_EQ(Read(1)->recovery_generation, std::nullopt);
    ::munmap(page, kFlightPageBytes);
  }
  EXPECT_FALSE(other->IsLost(0, 0));
  ASSERT_TRUE(MarkLost(file_, 0, 1).ok());
  EXPECT_TRUE(other->IsLost(0, 0));
  EXPECT_FALSE(other->IsLost(0, 1));
  EXPECT_FALSE(other->IsLost(1, 0));
  ASSERT_EQ(other->LostWorkersSince(0).size(), 1U);
  EXPECT_EQ(other->LostWorkersSince(0)[0].rank, 6);  // in the job
  EXPECT_TRUE(other->LostWorkersSince(1).empty());

  const auto next = Attach(0, 6);
  EXPECT_TRUE(other->IsLost(0, 0));
  const FlightSnapshot fresh = *Read(0);
  EXPECT_EQ(fresh.step, 0);
  EXPECT_EQ(fresh.recovery_generation, std::nullopt);
  EXPECT_TRUE(fresh.collectives.empty());
  EXPECT_TRUE(fresh.log.empty());
  next->SetRecoveryGeneration(1);
  EXPECT_EQ(Read(0)->recovery_generation, 1);
  EXPECT_FALSE(Read(0)->keeps_state);
  next->SetRecoveryGeneration(2, /*keeps_state=*/true);
  EXPECT_EQ(Read(0)->recovery_generation, 2);
  EXPECT_TRUE(Read(0)->keeps_state);
  next->SetRecoveryGeneration({});
  EXPECT_EQ(Read(0)->recovery_generation, std::nullopt);
}

TEST_F(FlightRecorderTest, FollowsACollectiveFromItsScheduleToItsEnd) {
  const auto recorder = Attach(0, 0);
  recorder->SetStep(57);
  recorder->SetBucket(3);
  ASSERT_EQ(recorder->Schedule(kGradients), 1U);
  RecordedCollective seen = Read(0)->collectives.at(0);
  EXPECT_EQ(seen.state, CollectiveState::kScheduled);
  EXPECT_EQ(seen.bucket, 3);
  EXPECT_FALSE(seen.started.has_value());

  recorder->Start(1, kGradients);
  seen = Read(0)->collectives.at(0);
  EXPECT_EQ(seen.state, CollectiveState::kStarted);
  EXPECT_EQ(seen.type, "bfloat16");
  EXPECT_EQ(seen.elements, 1000U);
  EXPECT_EQ(seen.step, 57);
  EXPECT_EQ(seen.bucket, 3);
  EXPECT_EQ(recorder->StepAndBucket(1), "step 57, bucket 3");
  EXPECT_LE(*seen.scheduled, *seen.started);

  recorder->SetWaiting(1, true);
  EXPECT_EQ(Read(0)->collectives.at(0).state, CollectiveState::kWaiting);
  recorder->SetWaiting(1, false);
  EXPECT_EQ(Read(0)->collectives.at(0).state, CollectiveState::kStarted);

  recorder->End(1, true);
  seen = Read(0)->collectives.at(0);
  EXPECT_EQ(seen.state, CollectiveState::kCompleted);
  EXPECT_LE(*seen.started, *seen.ended);
  EXPECT_EQ(Read(0)->ended, 1U);
}

TEST_F(FlightRecorderTest, KeepsTheLastCollectivesInOrder) {
  const auto recorder = Attach(1, 1);
  for (uint64_t i = 1; i <= 100; ++i) {
    recorder->Start(recorder->Schedule(kGradients), kGradients);
    recorder->End(i, i != 100);
  }
  const FlightSnapshot snapshot = *Read(1);
  ASSERT_EQ(snapshot.collectives.size(), kRecordedCollectives);
  EXPECT_EQ(snapshot.collectives.front().ticket, 101 - kRecordedCollectives);
  EXPECT_EQ(snapshot.collectives.back().ticket, 100U);
  EXPECT_EQ(snapshot.collectives.back().state, CollectiveState::kFailed);
  EXPECT_EQ(snapshot.collectives.back().bucket, -1);
  EXPECT_EQ(snapshot.scheduled, 100U);
}

// The ring is full of collectives that have not ended: the next ones must not overwrite them.
TEST_F(FlightRecorderTest, LeavesOutWhatIsScheduledBeyondTheRing) {
  const auto recorder = Attach(0, 0);
  for (int i = 0; i < 100; ++i) recorder->Schedule(kGradients);
  recorder->Start(1, kGradients);
  const FlightSnapshot snapshot = *Read(0);
  EXPECT_EQ(snapshot.scheduled, 100U);
  EXPECT_EQ(snapshot.collectives.front().ticket, 1U);
  EXPECT_EQ(snapshot.collectives.front().state, CollectiveState::kStarted);
  EXPECT_LT(snapshot.collectives.back().ticket, kRecordedCollectives);
}

TEST_F(FlightRecorderTest, DoesNotKnowWhereItIsBeforeTheFirstStep) {
  const auto recorder = Attach(0, 0);
  recorder->Start(recorder->Schedule(kGradients), kGradients);
  EXPECT_EQ(recorder->StepAndBucket(1), "");
}

TEST_F(FlightRecorderTest, CountsWhatIsNoCollective) {
  const auto recorder = Attach(0, 0);
  recorder->SetPhase(WorkerPhase::kEvaluating);
  recorder->NoteProgress();
  recorder->NoteProgress();
  EXPECT_EQ(Read(0)->phase, WorkerPhase::kEvaluating);
  EXPECT_EQ(Read(0)->progress, 2U);
}

TEST_F(FlightRecorderTest, NamesTheGpu) {
  const auto first = Attach(0, 0);
  const auto recorder = Attach(1, 1);
  const std::string fd = std::to_string(file_.get());
  const auto note = [&](int local_rank, const char* bus_id) {
    Environment environment;
    environment.Set(std::string(kFlightRecorderVariable), fd);
    NoteGpu(environment, local_rank, bus_id);
  };
  EXPECT_EQ(Gpu(1), "");
  note(1, "0000:3b:00.0");
  EXPECT_EQ(Gpu(1), "0000:3b:00.0");
  EXPECT_EQ(Gpu(0), "");
  note(1, "0000:3b:00.0, and more");
  EXPECT_EQ(Gpu(1), "0000:3b:00.0, an");
  note(7, "0000:3b:00.0");  // nobody's place
  NoteGpu(Environment(), 1, "0000:5e:00.0");
  EXPECT_EQ(Gpu(1), "0000:3b:00.0, an");
}

TEST_F(FlightRecorderTest, KeepsTheNumbersOfTheRunForOneStart) {
  const auto recorder = Attach(1, 5);
  Environment environment;
  environment.Set(std::string(kFlightRecorderVariable), std::to_string(file_.get()));
  EXPECT_FALSE(Read(1)->run);
  NoteStart(environment, 1, 8, 2);
  NoteRun(environment, 1, {.total_steps = 100, .loss = 0.25, .samples_per_second = 32.5});
  EXPECT_EQ(Read(1)->world_size, 8);
  EXPECT_EQ(Read(1)->restarts, 2);
  EXPECT_EQ(Read(1)->run->total_steps, 100);
  EXPECT_EQ(Read(1)->run->loss, 0.25);
  EXPECT_EQ(Read(1)->run->samples_per_second, 32.5);
  EXPECT_EQ(Read(1)->run->step_seconds, 0);
  const auto replacement = Attach(1, 5);
  EXPECT_FALSE(Read(1)->run);
  EXPECT_EQ(Read(1)->world_size, 0);
}

TEST_F(FlightRecorderTest, GoesBackToThePhaseAroundAnInnerOne) {
  const std::shared_ptr<FlightRecorder> recorder = Attach(0, 0);
  NotePhasesIn(recorder);
  EXPECT_EQ(Read(0)->step_phase, StepPhase::kNone);
  EXPECT_FALSE(Read(0)->step_phase_began);
  BeginPhase(StepPhase::kBetween);
  {
    const InnerPhase evaluates(StepPhase::kEvaluate);
    const InnerPhase waits(StepPhase::kData);
    EXPECT_EQ(Read(0)->step_phase, StepPhase::kData);
    std::thread([] { const InnerPhase of_another_thread(StepPhase::kSave); }).join();
    EXPECT_EQ(Read(0)->step_phase, StepPhase::kData);
  }
  EXPECT_EQ(Read(0)->step_phase, StepPhase::kBetween);
  EXPECT_LE(*Read(0)->step_phase_began, std::chrono::steady_clock::now());
  StopNotingPhases();
  BeginPhase(StepPhase::kUpdate);
  EXPECT_EQ(Read(0)->step_phase, StepPhase::kBetween);
}

TEST_F(FlightRecorderTest, TellsOfAProcessOfAnotherNode) {
  const auto recorder = Attach(1, 7);
  EXPECT_FALSE(recorder->IsAnyLost(0));
  ASSERT_TRUE(MarkLostElsewhere(file_, 12, 3).ok());
  EXPECT_TRUE(recorder->IsAnyLost(2));
  EXPECT_FALSE(recorder->IsAnyLost(3));
  EXPECT_FALSE(recorder->IsLost(0, 0));
  const std::vector<LostWorker> lost = recorder->LostWorkersSince(2);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].rank, 12);
  EXPECT_EQ(lost[0].generation, 3);
  EXPECT_LE(lost[0].time, std::chrono::steady_clock::now());
  ASSERT_TRUE(MarkLost(file_, 1, 4).ok());
  EXPECT_TRUE(recorder->IsAnyLost(3));
}

TEST(StepPhase, AThreadHasItsOwnTimeOfEachPhase) {
  constexpr std::chrono::milliseconds kPause(20);
  const auto time_of = [](const OwnTimes& times, StepPhase phase) {
    return times[static_cast<size_t>(phase)];
  };
  EXPECT_EQ(TakeOwnTimes(), OwnTimes());
  NotePhasesIn(nullptr);
  BeginPhase(StepPhase::kForward);
  std::this_thread::sleep_for(kPause);
  {
    const InnerPhase computes(StepPhase::kBackward);
    const WaitForRanks waits;
    const WaitForRanks waits_within;
    std::this_thread::sleep_for(10 * kPause);
  }
  BeginPhase(StepPhase::kUpdate);
  const OwnTimes times = TakeOwnTimes();
  EXPECT_GE(time_of(times, StepPhase::kForward), kPause);
  EXPECT_LT(time_of(times, StepPhase::kBackward), 10 * kPause);
  EXPECT_EQ(time_of(times, StepPhase::kUpdate), OwnTimes::value_type());  // has not ended
  BeginPhase(StepPhase::kBetween);
  EXPECT_EQ(time_of(TakeOwnTimes(), StepPhase::kForward), OwnTimes::value_type());
  StopNotingPhases();
}

TEST(SpanLog, HasThePhasesOfTheThreadThatNotesThem) {
  SpanLog& log = SpanLog::OfProcess();
  NotePhasesIn(nullptr);
  BeginPhase(StepPhase::kForward);  // before the log is open: cut off
  log.Open();
  const TimeSpan::Time opened = std::chrono::steady_clock::now();
  {
    const InnerPhase computes(StepPhase::kBackward);
    std::thread([] { const InnerPhase of_another_thread(StepPhase::kSave); }).join();
  }
  BeginPhase(StepPhase::kUpdate);
  BeginPhase(StepPhase::kBetween);
  const SpanLog::Spans spans = log.Close();
  BeginPhase(StepPhase::kForward);
  StopNotingPhases();
  std::vector<std::string_view> names;
  for (const TimeSpan& span : spans.spans) {
    names.push_back(span.name);
    EXPECT_LE(span.begin, span.end);
    if (names.size() > 1) EXPECT_EQ(span.begin, spans.spans[names.size() - 2].end);
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"forward", "backward", "forward", "update"}));
  EXPECT_LE(spans.spans.front().begin, opened);
  EXPECT_GT(spans.spans.front().begin, opened - std::chrono::seconds(1));
  EXPECT_EQ(spans.lost, 0U);
  log.Open();
  EXPECT_TRUE(log.Close().spans.empty());
}

TEST_F(FlightRecorderTest, KeepsTheLastCommandToGoOn) {
  const auto lost = Attach(1, 1);
  Environment environment;
  environment.Set(std::string(kFlightRecorderVariable), std::to_string(file_.get()));
  const auto left = [&] { return (*FlightReader::Open(file_, 2))->ReadResumeCommand(1); };
  EXPECT_EQ(left(), "");
  const std::string longest(kRecordedCommandBytes, 'x');
  NoteResumeCommand(environment, 1, longest);
  EXPECT_EQ(left(), longest);
  NoteResumeCommand(environment, 1, "go\x1b[2J runs/\xC3\xA4");
  EXPECT_EQ(left(), "go runs/\xC3\xA4");
  NoteResumeCommand(environment, 1, longest + "x");  // half a command would be another one
  EXPECT_EQ(left(), "");
  NoteResumeCommand(environment, 1, "go");
  NoteResumeCommand(environment, 1, "");
  EXPECT_EQ(left(), "");
  NoteResumeCommand(environment, 1, "go");
  NoteResumeCommand(environment, 0, "stay");
  const auto next = Attach(1, 1);  // the process that replaces it
  EXPECT_EQ(left(), "");
}

TEST_F(FlightRecorderTest, OutlivesTheWorker) {
  const pid_t child = fork();
  if (child == 0) {
    const auto recorder = Attach(1, 5);
    recorder->SetStep(9);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::optional<FlightSnapshot> snapshot = Read(1);
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->pid, child);
  EXPECT_EQ(snapshot->step, 9);
}

TEST_F(FlightRecorderTest, RefusesAPlaceThatItDoesNotHave) {
  EXPECT_FALSE(FlightRecorder::Attach(file_, 2, 2).has_value());
  EXPECT_FALSE(FlightRecorder::Attach(file_, -1, 2).has_value());
  EXPECT_FALSE(FlightRecorder::Attach(UniqueFd(), 0, 0).has_value());
  EXPECT_FALSE(FlightReader::Open(file_, 3).has_value());
}

// The descriptor's number may have come to mean something else since the agent gave it.
TEST_F(FlightRecorderTest, WritesToNoOtherFile) {
  FILE* other = tmpfile();
  ASSERT_EQ(ftruncate(fileno(other), 1 << 20), 0);
  const UniqueFd copy(dup(fileno(other)));
  EXPECT_FALSE(FlightRecorder::Attach(copy, 0, 0).has_value());
  fclose(other);
}

TEST_F(FlightRecorderTest, TakesNonsenseForNoTime) {
  const auto recorder = Attach(0, 0);
  const std::string nonsense(kFlightPageBytes - sizeof kFlightMagic, '\xfe');
  ASSERT_GT(pwrite(file_.get(), nonsense.data(), nonsense.size(), sizeof kFlightMagic), 0);
  const std::optional<FlightSnapshot> snapshot = Read(0);
  ASSERT_EQ(snapshot->collectives.size(), kRecordedCollectives);
  for (const RecordedCollective& collective : snapshot->collectives) {
    EXPECT_EQ(collective.type, "????????");
    EXPECT_EQ(NameOf(collective.kind), "collective");
    EXPECT_FALSE(collective.scheduled || collective.started || collective.ended);
  }
}

// A reader maps it: a shorter file would kill the agent.
TEST_F(FlightRecorderTest, CannotBeMadeShorterByAWorker) {
  EXPECT_NE(ftruncate(file_.get(), 0), 0);
}

Collective Numbered(uint64_t i) {
  return {
      .kind = CollectiveKind::kAllReduce, .type = "float32", .elements = 3 * i, .bytes = 12 * i};
}

// The reader sees an entry's values together while two threads schedule and run collectives.
TEST_F(FlightRecorderTest, NeverShowsHalfACollective) {
  constexpr uint64_t kCount = 30'000;
  const auto recorder = Attach(0, 0);
  std::atomic<uint64_t> handed_over = 0;
  std::thread submitter([&] {
    for (uint64_t i = 1; i <= kCount; ++i) {
      recorder->SetBucket(static_cast<int>(i));
      recorder->Schedule(Numbered(i));
      handed_over.store(i, std::memory_order_release);
    }
  });
  std::thread runner([&] {
    for (uint64_t i = 1; i <= kCount; ++i) {
      while (handed_over.load(std::memory_order_acquire) < i) std::this_thread::yield();
      recorder->Start(i, Numbered(i));
      recorder->SetWaiting(i, true);
      recorder->End(i, true);
    }
  });
  const auto reader = *FlightReader::Open(file_, 2);
  size_t seen = 0;
  uint64_t ended = 0;
  while (ended < kCount) {
    const FlightSnapshot snapshot = *reader->Read(0);
    ended = snapshot.ended;
    for (const RecordedCollective& collective : snapshot.collectives) {
      ++seen;
      ASSERT_EQ(collective.bytes, 12 * collective.ticket);
      ASSERT_EQ(collective.elements, 3 * collective.ticket);
      if (collective.bucket < 0) continue;
      ASSERT_EQ(static_cast<uint64_t>(collective.bucket), collective.ticket);
    }
  }
  submitter.join();
  runner.join();
  EXPECT_GT(seen, 0U);
}

TEST_F(FlightRecorderTest, KeepsTheLastLinesOfTheLogAsFarAsTheyFit) {
  const auto recorder = Attach(1, 1);
  EXPECT_TRUE(Read(1)->log.empty());
  for (int i = 0; i < 10; ++i) recorder->NoteLine("line " + std::to_string(i));
  recorder->NoteLine(std::string(1000, 'x') + "\x1b[2J");
  recorder->NoteLine("");
  const std::vector<std::string> log = Read(1)->log;
  ASSERT_EQ(log.size(), kRecordedLines);
  EXPECT_EQ(log[0], "line 4");
  EXPECT_EQ(log[5], "line 9");
  EXPECT_EQ(log[6], std::string(kRecordedLineBytes, 'x'));
  EXPECT_EQ(log[7], "");
}

TEST_F(FlightRecorderTest, NeverShowsHalfALineOfTheLog) {
  constexpr int kLines = 20'000;
  const auto recorder = Attach(0, 0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < kLines; ++i) recorder->NoteLine(std::string(1 + i % 100, "abcdefg"[i % 7]));
    done = true;
  });
  const auto reader = *FlightReader::Open(file_, 2);
  while (!done) {
    const FlightSnapshot snapshot = *reader->Read(0);
    for (const std::string& line : snapshot.log) {
      ASSERT_EQ(line, std::string(line.size(), line[0]));
    }
  }
  writer.join();
  EXPECT_EQ(reader->Read(0)->log.size(), kRecordedLines);
}

}  // namespace
}  // namespace ddprun
