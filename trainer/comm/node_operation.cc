#include "trainer/comm/node_operation.h"

#include <tuple>

namespace ddprun::trainer {

bool SameOperation(const OperationHeader& a, const OperationHeader& b) {
  const auto key = [](const OperationHeader& header) {
    return std::tie(header.sequence, header.bytes, header.kind, header.type, header.reduction,
                    header.root, header.algorithm);
  };
  return key(a) == key(b);
}

std::string Describe(const OperationHeader& header) {
  const std::string number = " number " + std::to_string(header.sequence);
  const std::string root = std::to_string(header.root);
  const auto bytes = [&](const std::string& whose) {
    return " (" + std::to_string(header.bytes) + " bytes" + whose + ")";
  };
  const auto reduction = [&](std::string to) {
    const auto algorithm = static_cast<AllReduceAlgorithm>(header.algorithm);
    if (algorithm != AllReduceAlgorithm::kDirect) to += ", " + std::string(NameOf(algorithm));
    const DataType type = static_cast<DataType>(header.type);
    return " (" + std::string(NameOf(static_cast<Reduction>(header.reduction))) + " of " +
           std::to_string(header.bytes / SizeOf(type)) + " " + std::string(NameOf(type)) + to + ")";
  };
  switch (static_cast<CollectiveKind>(header.kind)) {
    case CollectiveKind::kAllReduce:
      return "all_reduce" + number + reduction("");
    case CollectiveKind::kReduce:
      return "reduce" + number + reduction(" to rank " + root);
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter" + number + reduction(", a part for each rank");
    case CollectiveKind::kBroadcast:
      return "broadcast" + number + bytes(" from rank " + root);
    case CollectiveKind::kAllGather:
      return "all_gather" + number + bytes(" of each rank");
    case CollectiveKind::kGather:
      return "gather" + number + bytes(" of each rank to rank " + root);
    case CollectiveKind::kScatter:
      return "scatter" + number + bytes(" from rank " + root);
    case CollectiveKind::kAllToAll:
      return "all_to_all" + number + bytes(" of each rank");
    case CollectiveKind::kBarrier:
      return "barrier" + number;
    case CollectiveKind::kReceive:  // no collective
    case CollectiveKind::kReceiveFromAny:
    case CollectiveKind::kOther:
      break;
  }
  return "an unknown operation" + number;
}

Error WrongSizes(int rank, int sender, size_t expected, size_t sent) {
  return Error{.title = "MISMATCHED COLLECTIVES",
               .where = "rank " + std::to_string(rank),
               .what = "In all_to_all rank " + std::to_string(rank) + " expects " +
                       std::to_string(expected) + " bytes from rank " + std::to_string(sender) +
                       ", which sends " + std::to_string(sent) + ".",
               .hint = "Every rank must send as many bytes as the receiver expects.",
               .page = "mismatched-collectives"};
}

Collective ForRecorder(const OperationHeader& header, uint16_t group) {
  const auto kind = static_cast<CollectiveKind>(header.kind);
  Collective collective{
      .kind = kind, .group = group, .number = header.sequence, .bytes = header.bytes};
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
      kind == CollectiveKind::kReduceScatter) {
    const auto type = static_cast<DataType>(header.type);
    collective.type = NameOf(type);
    collective.elements = header.bytes / SizeOf(type);
  }
  return collective;
}

}  // namespace ddprun::trainer
