#include "tests/trainer/standin/device.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

namespace standin {
namespace {

int broken = 0;

void RunOne(const Work& work) {
  if (broken != 0) return;
  try {
    work();
  } catch (const std::exception& error) {
    Break(710, error.what());  // cudaErrorAssert: a kernel's assertion
  }
}

}  // namespace

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Say(cudaError_t error) {
  if (Broken() != 0) error = static_cast<cudaError_t>(Broken());
  if (error != cudaSuccess) last_error = error;
  return error;
}

Stream* Of(void* stream) {
  // The default streams of the devices.
  static std::array<Stream, kMostDevices>& defaults = *new std::array<Stream, kMostDevices>;
  const bool is_default = reinterpret_cast<size_t>(stream) <= 2;
  return is_default ? &defaults[static_cast<size_t>(current_device)] : static_cast<Stream*>(stream);
}

// Runs work that a stream may capture.
cudaError_t BreakRule(const std::shared_ptr<Graph>& graph, cudaError_t error) {
  if (graph->error == 0) graph->error = error;
  return Say(error);
}

cudaError_t Queue(void* stream, const char* name, Work work, bool waits) {
  if (Broken() != 0) return Say(cudaSuccess);
  Stream* const one = Of(stream);
  if (one->graph != nullptr) {
    one->graph->names.emplace_back(name);
    if (work) one->graph->work.push_back(std::move(work));
    ++one->captured;
  } else if (work) {
    one->Run(std::move(work), waits);
  }
  return Say(cudaSuccess);
}

void Enqueue(void* stream, Work work, bool waits) {
  Queue(stream, "values", std::move(work), waits);
}
void FinishStream(void* stream) {
  Of(stream)->Finish();
}
bool IsCapturing(void* stream) {
  return Of(stream)->graph != nullptr;
}
// A line for each launch at once, so that a process which ends without its exit handlers loses
// none.
void Log(const std::string& name) {
  static std::FILE* const file = std::getenv("STANDIN_LAUNCHES") != nullptr
                                     ? std::fopen(std::getenv("STANDIN_LAUNCHES"), "a")
                                     : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", name.c_str());
  std::fflush(file);
}

int Broken() {
  return broken;
}

void Break(int error, const std::string& why) {
  std::fprintf(stderr, "stand-in: a kernel failed: %s\n", why.substr(0, why.find('\n')).c_str());
  broken = error;
}

void Point::Reach() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  seconds = std::chrono::duration<double>(now).count();
  reached_ = true;
  changed_.notify_all();
}

bool Point::IsReached() {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void Point::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

void Stream::Run(Work work, bool waits) {
  std::unique_lock lock(mutex_);
  if (!waits && !busy_ && queue_.empty()) {
    busy_ = true;
    lock.unlock();
    RunOne(work);
    lock.lock();
    busy_ = false;
  } else {
    queue_.push_back(std::move(work));
    // The thread ends with the process: a stream may wait for a rank that never comes.
    if (!std::exchange(started_, true)) std::thread([this] { Loop(); }).detach();
  }
  changed_.notify_all();
}

void Stream::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !busy_ && !queue_.empty(); });
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    RunOne(work);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Stream::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_ && queue_.empty(); });
}

bool Stream::IsIdle() {
  const std::lock_guard lock(mutex_);
  return !busy_ && queue_.empty();
}

}  // namespace standin
