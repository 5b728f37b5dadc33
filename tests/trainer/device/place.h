// The place in a program from which an operation came, for messages.
#pragma once

#include <array>
#include <stdexcept>
#include <string>

namespace ddprun::simulated {

// A mistake of the program, or an error of an operation that was queued before.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// While it lives, names this thread's work: "step 3 of the prefetcher".
class Label {
 public:
  explicit Label(std::string text);
  ~Label();
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;
};

// While it lives, all that happens on this thread belongs to this operation.
class Doing {
 public:
  explicit Doing(std::string operation);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  // Returns the operation, or "the host" outside of operations.
  static const std::string& Operation();

 private:
  std::string outer_;
};

// A moment in a program. Cheap to take, slow to print.
class Place {
 public:
  Place();  // here and now
  // Returns the labels, the running autograd node, and the program's innermost function.
  std::string Text() const;

 private:
  std::string labels_;
  std::string node_;
  std::array<void*, 32> frames_;
  int depth_ = 0;
};

}  // namespace ddprun::simulated
