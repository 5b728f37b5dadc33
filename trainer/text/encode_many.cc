#include "trainer/text/encode_many.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kTextsAtOnce = 32;  // few enough that no thread is left with all the long ones

}  // namespace

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

std::vector<std::vector<int32_t>> EncodeMany(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> texts,
                                             int threads) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  std::atomic<size_t> next{0};
  RunOnThreads(threads, [&] {
    std::vector<int32_t> scratch;
    for (size_t begin = next.fetch_add(kTextsAtOnce); begin < texts.size();
         begin = next.fetch_add(kTextsAtOnce)) {
      const size_t end = std::min(begin + kTextsAtOnce, texts.size());
      for (size_t i = begin; i < end; ++i) {
        scratch.clear();
        tokenizer.Encode(texts[i], scratch);
        ids[i].assign(scratch.begin(), scratch.end());
      }
    }
  });
  return ids;
}

}  // namespace ddprun::trainer
