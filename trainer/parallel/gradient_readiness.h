// Tracks which gradients a backward has produced, and which buckets are full. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::trainer {

// One thread at a time.
class GradientReadiness {
 public:
  // `static_graph`: every backward uses the parameters of the first one, each equally often.
  GradientReadiness(size_t parameters, bool static_graph)
      : static_graph_(static_graph), slots_(parameters) {}

  // Sets the buckets' members. Call it before the first Begin() and after each new layout.
  void SetBuckets(const std::vector<std::vector<size_t>>& members);

  // Forgets all that earlier backwards showed about the graph.
  void Forget();

  // Begins a backward.
  void Begin();
  // Records that a gradient of the parameter has come. A static graph may bring several. Returns
  // whether it is the last one, as far as known.
  bool NoteGradient(size_t index);
  // Marks the parameter as ready: it gets no further gradient. REQUIRES: !ready(index).
  void SetReady(size_t index);
  // Ends the first backward of a static graph, and marks each parameter with a gradient as ready.
  void EndFirstOfStaticGraph();
  // Records that the backward is synchronised.
  void NoteSynchronised();

  bool ready(size_t index) const { return slots_[index].ready; }
  bool full(size_t bucket) const { return missing_[bucket] == 0; }
  bool used(size_t index) const { return slots_[index].used; }  // since the last NoteSynchronised()
  bool IsFirstOfStaticGraph() const { return static_graph_ && !graph_known_; }
  // Returns whether the parameters without gradient are known, as only a static graph allows.
  bool graph_known() const { return graph_known_; }
  bool has_no_gradient(size_t index) const {
    return graph_known_ && slots_[index].expected_calls == 0;
  }
  bool is_first_call(size_t index) const { return slots_[index].calls == 1; }
  size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    size_t bucket = 0;
    bool ready = false;
    bool used = false;
    int calls = 0;            // gradients that came in this backward
    int expected_calls = -1;  // of a static graph; -1: unknown
  };

  const bool static_graph_;
  bool graph_known_ = false;
  std::vector<Slot> slots_;      // by parameter
  std::vector<size_t> missing_;  // by bucket: members that are not ready
};

}  // namespace ddprun::trainer
