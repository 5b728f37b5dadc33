// The stand-in's device: streams that run in order, events, captures. Work that does not wait runs
// at once in the caller's thread, if nothing is queued before it; other work runs in the stream's.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace standin {

constexpr int kMostDevices = 16;

using Work = std::function<void()>;

// What a capture records, in the order of the calls. Streams that wait for an event of it join it.
struct Graph {
  std::vector<Work> work;
  std::vector<std::string> names;  // also kernels, which do nothing
  std::vector<class Stream*> streams;
  unsigned long long id = 0;
  int error = 0;  // the first broken rule
  bool ended = false;
};

// The end of the work that came before an event.
class Point {
 public:
  void Reach();
  bool IsReached();
  void Wait();
  double seconds = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
};

class Stream {
 public:
  void Run(Work work, bool waits);
  void Finish();
  bool IsIdle();

  std::shared_ptr<Graph> graph;  // while it is captured
  size_t captured = 0;           // how much it has captured
  size_t joined = 0;             // how much of it another captured stream waits for

 private:
  void Loop();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool busy_ = false, started_ = false;
};

struct Event {
  std::shared_ptr<Point> point;
  std::weak_ptr<Graph> graph;
  bool is_captured = false;
  Stream* stream = nullptr;
  size_t captured = 0;
};

extern thread_local int current_device;
extern thread_local cudaError_t last_error;

// Returns the error, or the one that broke the device, and keeps it for cudaGetLastError.
cudaError_t Say(cudaError_t error);

// Returns the stream of a cudaStream_t; without one, the current device's own.
Stream* Of(void* stream);

// Returns the error of a call that no capture allows, which ends the capture.
cudaError_t BreakRule(const std::shared_ptr<Graph>& graph, cudaError_t error);

// Runs work that the stream may capture. Without work: a kernel, which does nothing.
cudaError_t Queue(void* stream, const char* name, Work work, bool waits = false);

// Runs the work on the stream (a cudaStream_t), or records it in the stream's capture.
__attribute__((visibility("default"))) void Enqueue(void* stream, Work work, bool waits);
__attribute__((visibility("default"))) void FinishStream(void* stream);
__attribute__((visibility("default"))) bool IsCapturing(void* stream);
__attribute__((visibility("default"))) bool IsPinned(const void* memory);

// Writes the name of a launch to the file STANDIN_LAUNCHES.
__attribute__((visibility("default"))) void Log(const std::string& name);

// What a kernel has broken: each later call of CUDA returns it (0: nothing).
int Broken();
void Break(int error, const std::string& why);

}  // namespace standin
