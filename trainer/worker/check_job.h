// `ddp-trainer check` reports everything that can be known about a run without a step.
#pragma once

#include <string>
#include <vector>

#include <ddprun/error.h>
#include "base/env.h"
#include "trainer/comm/rank_info.h"
#include "trainer/job/job.h"

namespace ddprun::trainer {

struct CheckedJob {
  std::vector<Error> problems;
  std::vector<std::string> warnings;
  std::vector<std::string> facts;  // lines
};

// One thread. If successive runs have the same data, it is opened and read once.
class JobChecker {
 public:
  // `rank` is one of the ranks that will be started.
  JobChecker(std::string config_path, const RankInfo& rank, Environment environment)
      : path_(std::move(config_path)), rank_(rank), environment_(std::move(environment)) {}

  // Checks the job with `overrides`. If its files have at most 16 MiB in all, reads every sample;
  // else reads the first samples and some of the rest. The facts say which.
  CheckedJob Check(const std::vector<std::string>& overrides);

 private:
  void Open(const Config& config);
  void CheckNamedFiles(const Config& config, CheckedJob& found) const;
  void CheckDevice(const Config& config, CheckedJob& found) const;
  void CheckTogether(CheckedJob& found);

  const std::string path_;
  const RankInfo rank_;
  const Environment environment_;
  std::string sections_;  // of the config that opened_ was made from
  Job job_;
  CheckedJob opened_;
};

}  // namespace ddprun::trainer
