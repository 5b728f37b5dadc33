#include "trainer/worker/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/span_log.h"
#include "tests/trainer/loop/small_jobs.h"
#include "tests/trainer/report/noted_lines.h"
#include "trainer/job/plan_job.h"

namespace ddprun::trainer {
namespace {

// Two ranks meet; the clock of the second is `offset` behind that of the first.
TEST(ClockOffset, IsExactToTheLengthOfTheShortestMeeting) {
  std::mt19937_64 random(7);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  for (int trial = 0; trial < 1000; ++trial) {
    const int64_t offset = below(2'000'000'000'000) - 1'000'000'000'000;
    std::vector<int64_t> came[2];
    std::vector<int64_t> left[2];
    int64_t shortest = INT64_MAX;
    for (int64_t meeting = 1; meeting <= 20; ++meeting) {
      const int64_t start = meeting * 1'000'000'000;
      const int64_t arrivals[2] = {start + below(100'000), start + below(100'000)};
      const int64_t all_here = std::max(arrivals[0], arrivals[1]);
      int64_t lengths = 0;
      for (int rank = 0; rank < 2; ++rank) {
        const int64_t clock = rank == 0 ? 0 : -offset;
        came[rank].push_back(arrivals[rank] + clock);
        left[rank].push_back(all_here + below(50'000) + clock);
        lengths += left[rank].back() - came[rank].back();
      }
      shortest = std::min(shortest, lengths / 2);
    }
    const int64_t found = ClockOffset({came[0], left[0]}, {came[1], left[1]});
    EXPECT_LE(std::abs(found - offset), shortest + 1) << "trial " << trial;
  }
}

// Two ranks. The other one is lost in the all-reduce of this number, from 0 on.
class LosingGroup final : public c10d::Backend {
 public:
  explicit LosingGroup(int lost_in) : Backend(0, 2), left_(lost_in) {}
  const std::string getBackendName() const override { return "losing"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    if (left_-- > 0) return nullptr;
    throw Failure(Error{.code = Code::kRankLost, .what = "rank 1 was lost"});
  }

 private:
  int left_;
};

// The weights are updated by then, so the step must not be repeated.
TEST(StepTrace, IsGivenUpIfARankIsLostAtItsEnd) {
  at::set_num_threads(1);
  for (const int lost_in : {0, 1, 2, 20, 34}) {
    Job job = MakeJob(2, 1);
    job.config.run.max_steps = 3;
    Trainer trainer(job, PlanFor(job, 1), {}, nullptr, Log::ToStderr({}));
    trainer.Build();
    Mesh mesh;
    mesh.world.size = 2;
    mesh.control = c10::make_intrusive<LosingGroup>(lost_in);
    StepTrace trace(mesh, 1, 2);
    trainer.AddPart(trace);
    Observers observers;
    const auto& notes = dynamic_cast<NotedLines&>(observers.Add(std::make_unique<NotedLines>()));
    trainer.Fit(&observers);
    EXPECT_EQ(notes.lines, std::vector<std::string>{"no trace: a rank was lost at its end"});
    EXPECT_EQ(trainer.step(), 3);
    EXPECT_FALSE(SpanLog::OfProcess().is_open());
  }
}

}  // namespace
}  // namespace ddprun::trainer
