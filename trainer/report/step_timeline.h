// One step of a run's trace.json (report.trace_steps), for a picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::trainer {

struct StepTimeline {
  enum class Kind { kPhase, kCollective, kMessage };
  // Times are milliseconds since the beginning of the step.
  struct Span {
    size_t row = 0;
    Kind kind = Kind::kPhase;
    std::string name = {};  // "backward", "all_reduce"
    double begin = 0;
    double end = 0;
    double waited = 0;    // from `begin`: of a collective, for other ranks
    std::string of = {};  // "step 57, bucket 3"
  };
  struct Row {
    int rank = 0;
    std::string name = {};  // "step", "collectives of all ranks", "messages"
  };

  int64_t step = 0;  // 0: the trace does not say
  double milliseconds = 0;
  std::vector<Row> rows = {};  // by rank
  std::vector<Span> spans = {};
  int64_t ranks_left_out = 0;
};

// Returns the step in the middle of the trace: from the end of rank 0's update before to the end of
// its update. Returns nullopt if the text is no trace of a step. `most_ranks`: the first ones are
// kept. Pure.
std::optional<StepTimeline> ReadTimeline(std::string_view trace, int most_ranks);

}  // namespace ddprun::trainer
