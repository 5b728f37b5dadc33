// Choices of workers' streams, as -r and -t take them.
#pragma once

#include <map>

namespace ddprun::launcher {

// A choice of a worker's streams: torchrun's numbers for -r and -t.
struct Streams {
  bool out = false;
  bool err = false;
};

// "3" is a value for all local ranks. "0:1,1:2" is a value for each; other ranks get no stream.
struct StreamsPerRank {
  Streams all;
  std::map<int, Streams> of_rank = {};

  Streams Of(int local_rank) const {
    const auto found = of_rank.find(local_rank);
    return found == of_rank.end() ? all : found->second;
  }
};

}  // namespace ddprun::launcher
