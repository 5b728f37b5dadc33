// Internal to kStaticBackend: how long a join takes, and who is missing.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/static/static_host.h"
#include "rendezvous/static/static_node.h"

namespace ddprun::rendezvous {

// Reports which nodes are missing while this node joins, and ends the join at its deadline.
class JoinWatch {
 public:
  JoinWatch(StaticNode& node, const StaticHost& host) : node_(node), host_(host) {}

  void Start();

 private:
  void OnDeadline();
  void AwaitProgressTime();
  void ReportProgress();
  void ReportJoined();
  void ReportLineOfHost();
  void LookForNode(int node, const std::vector<int>& missing);

  StaticNode& node_;
  const StaticHost& host_;
  std::string joined_;     // the last DescribeJoined() of the round
  std::string other_job_;  // on node 0: text about a node of another job
  bool looking_ = false;   // LookForNode() asks for one node after the other
};

}  // namespace ddprun::rendezvous
