// Where in a program an operation came from, for messages.
#pragma once

#include <array>
#include <stdexcept>
#include <string>

namespace ddprun::simulated {

// A mistake of the program, or an error of an operation that was queued before.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Names what this thread does until the object's end: "step 3 of the prefetcher".
class Label {
 public:
  explicit Label(std::string text);
  ~Label();
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;
};

// The operation that this thread is about to queue, for what happens on its behalf.
class Doing {
 public:
  explicit Doing(std::string operation);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  // "the host" outside of operations.
  static const std::string& Operation();

 private:
  std::string outer_;
};

// A moment in a program. Cheap to take, slow to print.
class Place {
 public:
  Place();  // here and now
  // The labels, the autograd node that runs, and the program's innermost function.
  std::string Text() const;

 private:
  std::string labels_;
  std::string node_;
  std::array<void*, 32> frames_;
  int depth_ = 0;
};

}  // namespace ddprun::simulated
