// Activities for tests.
#pragma once

#include "launcher/hang/worker_activity.h"

namespace ddprun::launcher {

inline RecordedCollective AllReduce(uint64_t number, CollectiveState state) {
  RecordedCollective collective;
  collective.ticket = number;
  collective.number = number;
  collective.kind = CollectiveKind::kAllReduce;
  collective.state = state;
  collective.started = RecordedCollective::Time(std::chrono::seconds(100));
  if (state == CollectiveState::kCompleted) {
    collective.ended = RecordedCollective::Time(std::chrono::seconds(101));
  }
  return collective;
}

// Returns a worker with a flight recorder whose last collective is this one.
inline WorkerActivity In(int rank, uint64_t number, CollectiveState state) {
  FlightSnapshot flight;
  flight.rank = rank;
  flight.phase = WorkerPhase::kTraining;
  flight.started = number;
  if (number > 1) flight.collectives.push_back(AllReduce(number - 1, CollectiveState::kCompleted));
  flight.collectives.push_back(AllReduce(number, state));
  return {.rank = rank, .local_rank = rank, .pid = 100 + rank, .flight = flight};
}

// Returns a worker without a flight recorder.
inline WorkerActivity At(int rank, char state, long system_call, int still_seconds = 60) {
  return {.rank = rank,
          .local_rank = rank,
          .pid = 100 + rank,
          .place = {.state = state, .system_call = system_call, .where = "somewhere"},
          .still_for = std::chrono::seconds(still_seconds),
          .silent_for = std::chrono::seconds(still_seconds)};
}

}  // namespace ddprun::launcher
