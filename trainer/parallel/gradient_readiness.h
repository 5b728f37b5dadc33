// Which gradients have come in a backward, and which buckets are full. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::trainer {

// One thread at a time.
class GradientReadiness {
 public:
  // `static_graph`: every backward uses the same parameters equally often as the first.
  GradientReadiness(size_t parameters, bool static_graph)
      : static_graph_(static_graph), slots_(parameters) {}

  // The buckets' members; before the first Begin and whenever they change.
  void SetBuckets(const std::vector<std::vector<size_t>>& members);

  // Begins anew: what was learnt of the graph is unknown again.
  void Forget();

  // A backward begins.
  void Begin();
  // A gradient of this parameter has come. With a static graph there may be several; true: it is
  // the last one, as far as that is known.
  bool Came(size_t index);
  // Nothing more will come for the parameter. REQUIRES: !ready(index).
  void SetReady(size_t index);
  // The backward has ended; all that came in a static graph's first one is ready then.
  void EndFirstOfStaticGraph();
  // And has been synchronised.
  void Synchronised();

  bool ready(size_t index) const { return slots_[index].ready; }
  bool full(size_t bucket) const { return missing_[bucket] == 0; }
  bool used(size_t index) const { return slots_[index].used; }  // since Synchronised()
  bool FirstOfStaticGraph() const { return static_graph_ && !graph_known_; }
  // Static graph: its parameters without any gradient are known.
  bool graph_known() const { return graph_known_; }
  bool never_comes(size_t index) const { return graph_known_ && slots_[index].expected_calls == 0; }
  bool first_call(size_t index) const { return slots_[index].calls == 1; }
  size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    size_t bucket = 0;
    bool ready = false;
    bool used = false;
    int calls = 0;            // gradients that came in this backward
    int expected_calls = -1;  // static graph, once known
  };

  const bool static_graph_;
  bool graph_known_ = false;
  std::vector<Slot> slots_;      // by parameter
  std::vector<size_t> missing_;  // by bucket: members that are not ready
};

}  // namespace ddprun::trainer
