// Ranks as threads: one region, one mapping, so that the thread sanitizer sees every access.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace ddprun::trainer {

// Runs body(rank) on `size` threads; rethrows the first exception after all have ended.
inline void RunRanks(int size, const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace ddprun::trainer
