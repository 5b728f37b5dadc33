// The same work on several threads at once.
#pragma once

#include <cstddef>
#include <functional>

namespace ddprun {

// As many threads as there are processors; at least 1.
int CoreCount();

// Runs `work` on `threads` (>= 1) threads at once, the calling one among them. Throws the exception
// of one of them, if there was any, when all have ended.
void RunOnThreads(int threads, const std::function<void()>& work);

// Runs work(begin, end) for parts that together are [0, count), `part` (>= 1) at a time, each taken
// by the thread that is free. Otherwise as RunOnThreads.
void RunInParts(int threads,
                size_t count,
                size_t part,
                const std::function<void(size_t begin, size_t end)>& work);

}  // namespace ddprun
