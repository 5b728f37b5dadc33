// `ddp-trainer check`: everything that can be known of a run without a step of it, all at once.
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

// One thread. Data that several runs share is opened and read once, where they follow each other.
class JobChecker {
 public:
  // `rank`: one of the ranks that are to be started.
  JobChecker(std::string config_path, const RankInfo& rank, Environment environment)
      : path_(std::move(config_path)), rank_(rank), environment_(std::move(environment)) {}

  // Of files up to 16 MiB in all every sample is read, of larger ones the first and others spread
  // over the rest; the facts say which.
  CheckedJob Check(const std::vector<std::string>& overrides);

 private:
  void Open(const Config& config);
  void CheckNamedFiles(const Config& config, CheckedJob& found) const;
  void CheckDevice(const Config& config, CheckedJob& found) const;
  void CheckTogether(CheckedJob& found);

  const std::string path_;
  const RankInfo rank_;
  const Environment environment_;
  std::string sections_;  // what opened_ was made from
  Job job_;
  CheckedJob opened_;
};

}  // namespace ddprun::trainer
