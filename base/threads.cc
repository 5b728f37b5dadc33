#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace ddprun {

int CoreCount() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void RunOnThreads(int threads, const std::function<void()>& work) {
  DDPRUN_CHECK(threads >= 1);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(guarded);
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

void RunInParts(int threads,
                size_t count,
                size_t part,
                const std::function<void(size_t begin, size_t end)>& work) {
  DDPRUN_CHECK(part >= 1);
  std::atomic<size_t> next = 0;
  RunOnThreads(threads, [&] {
    for (size_t begin = next.fetch_add(part); begin < count; begin = next.fetch_add(part)) {
      work(begin, std::min(begin + part, count));
    }
  });
}

}  // namespace ddprun
