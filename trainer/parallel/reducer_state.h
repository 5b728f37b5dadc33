// What a reducer keeps of its buckets and parameters; see reducer.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "trainer/parallel/comm_hook.h"

namespace ddprun::trainer {

struct ReducerBucket {
  std::vector<size_t> members;
  std::vector<at::Tensor> parameters;  // of the members
  GradientBucket gradients;
  size_t missing = 0;  // members that are not ready in this backward
  // On its way: one of the two.
  c10::intrusive_ptr<c10d::Work> work = {};
  std::function<void()> finish = {};
};

// What is known of one parameter.
struct ReducerSlot {
  size_t bucket = 0;
  bool ready = false;       // in this backward: nothing more will come
  bool used = false;        // since the last synchronised backward
  int calls = 0;            // gradients that came in this backward
  int expected_calls = -1;  // static_graph, once known
};

}  // namespace ddprun::trainer
