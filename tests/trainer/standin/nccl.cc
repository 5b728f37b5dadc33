// NCCL between processes of one machine: ranks meet in shared memory and read each other's buffers.
// A rank that calls another operation than rank 0 ends the process with both calls.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "tests/trainer/standin/device.h"
#include "tests/trainer/standin/reduce.h"

namespace {

constexpr int kMost = 64;

struct Call {
  char name[16];
  size_t count;
  int type, op, root;
  bool operator==(const Call& other) const {
    return std::strcmp(name, other.name) == 0 && count == other.count && type == other.type &&
           op == other.op && root == other.root;
  }
  std::string Text() const {
    return std::string(name) + " of " + std::to_string(count) + " elements, type " +
           std::to_string(type) + ", operation " + std::to_string(op) + ", root " +
           std::to_string(root);
  }
};

struct Slot {
  std::atomic<uint64_t> begun, read;
  pid_t pid;
  const void* from;
  Call call;
};

// From one rank to one other: `posted` messages were offered, `taken` were read.
struct Mailbox {
  std::atomic<uint64_t> posted, taken;
  pid_t pid;
  const void* from;
  size_t bytes;
};

struct Meeting {
  std::atomic<int> joined;
  std::atomic<int> splits[kMost];
  int color[kMost], key[kMost];
  Slot slots[kMost];
  Mailbox mail[kMost][kMost];
};

}  // namespace

struct ncclComm {
  Meeting* meeting;
  int rank, size;
  std::string id;
  uint64_t calls = 0;
  int splits = 0;
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> error = ncclSuccess;
  std::mutex mutex;
  std::shared_ptr<standin::Point> last;  // the end of the last call that was queued
};

namespace {

std::mutex factors_mutex;
std::map<int, double> factors;  // by the number of an operation that was made

template <typename Condition>
bool Until(const ncclComm& comm, const Condition& condition) {
  for (int tries = 0; !condition(); ++tries) {
    if (comm.aborted) return false;
    if (tries < 100) {
      std::this_thread::yield();
    } else {
      // A rank that waits for long uses little CPU time, so that a hang is seen.
      std::this_thread::sleep_for(std::chrono::microseconds(tries < 1000   ? 50
                                                            : tries < 2000 ? 1000
                                                                           : 20'000));
    }
  }
  return true;
}

bool Read(ncclComm& comm, pid_t pid, const void* from, void* to, size_t bytes) {
  if (pid == getpid()) {
    std::memmove(to, from, bytes);
    return true;
  }
  for (size_t done = 0; done < bytes;) {
    const iovec local{static_cast<char*>(to) + done, bytes - done};
    const iovec remote{static_cast<char*>(const_cast<void*>(from)) + done, bytes - done};
    const ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got <= 0) {
      std::fprintf(stderr, "stand-in NCCL: rank %d cannot read memory of process %d: %s\n",
                   comm.rank, pid, std::strerror(errno));
      comm.error = ncclRemoteError;
      return false;
    }
    done += static_cast<size_t>(got);
  }
  return true;
}

// What one rank takes from the others: from `rank`'s buffer, at `offset`, `bytes`.
struct Part {
  size_t offset, bytes;
  int from;
};

struct Collective {
  Call call;
  const void* from;
  void* to;
  bool reduces = false;
  std::vector<Part> parts;  // those of one result after the other; for sums: of each rank
};

[[noreturn]] void Differ(const ncclComm& comm, const Call& first) {
  std::fprintf(stderr, "stand-in NCCL: rank 0 calls %s, rank %d calls %s\n", first.Text().c_str(),
               comm.rank, comm.meeting->slots[comm.rank].call.Text().c_str());
  std::abort();
}

// From this call of each communicator on, the network is lost: no rank reaches another.
uint64_t FirstLostCall() {
  const char* const text = std::getenv("STANDIN_NETWORK_BREAKS_AT");
  return text == nullptr ? std::numeric_limits<uint64_t>::max() : std::stoull(text);
}

void Perform(ncclComm& comm, const Collective& one) {
  const std::lock_guard lock(comm.mutex);
  Meeting& meeting = *comm.meeting;
  const uint64_t number = ++comm.calls;
  if (number >= FirstLostCall()) {
    Until(comm, [] { return false; });
    return;
  }
  Slot& mine = meeting.slots[comm.rank];
  mine.pid = getpid();
  mine.from = one.from;
  mine.call = one.call;
  mine.begun.store(number);
  for (int rank = 0; rank < comm.size; ++rank) {
    if (!Until(comm, [&] { return meeting.slots[rank].begun.load() >= number; })) return;
  }
  if (!(meeting.slots[0].call == one.call)) {
    // The real NCCL may hang, too.
    if (std::getenv("STANDIN_DIFFERENCES_HANG") == nullptr) Differ(comm, meeting.slots[0].call);
    Until(comm, [] { return false; });
    return;
  }
  std::vector<std::vector<char>> found;
  for (const Part& part : one.parts) {
    found.emplace_back(part.bytes);
    const Slot& slot = meeting.slots[part.from];
    if (part.bytes > 0 && !Read(comm, slot.pid, static_cast<const char*>(slot.from) + part.offset,
                                found.back().data(), part.bytes))
      return;
  }
  mine.read.store(number);
  // Nobody reads this rank's buffer any more: it may be the result's.
  for (int rank = 0; rank < comm.size; ++rank) {
    if (!Until(comm, [&] { return meeting.slots[rank].read.load() >= number; })) return;
  }
  if (one.reduces && !found.empty()) {
    const auto type = static_cast<ncclDataType_t>(one.call.type);
    const std::lock_guard factors_lock(factors_mutex);
    const auto factor = factors.find(one.call.op);
    const bool is_plain = factor == factors.end();
    standin::Reduce(found, type, is_plain ? static_cast<ncclRedOp_t>(one.call.op) : ncclSum,
                    is_plain ? 1 : factor->second, one.to);
  } else {
    char* to = static_cast<char*>(one.to);
    for (const std::vector<char>& part : found) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
  }
}

struct Message {
  bool sends;
  int peer;
  void* memory;
  size_t bytes;
};

void Exchange(ncclComm& comm, const std::vector<Message>& messages) {
  Meeting& meeting = *comm.meeting;
  std::map<std::pair<bool, int>, std::deque<Message>> open;
  for (const Message& one : messages) open[{one.sends, one.peer}].push_back(one);
  std::map<int, uint64_t> offered;  // by peer: the number of the message that waits to be taken
  // Each pair exchanges one message after the other; pairs do not wait for each other.
  const bool done = Until(comm, [&] {
    for (auto& [key, queue] : open) {
      if (queue.empty()) continue;
      const Message& one = queue.front();
      if (one.sends) {
        Mailbox& box = meeting.mail[comm.rank][one.peer];
        if (offered.contains(one.peer)) {
          if (box.taken.load() < offered[one.peer]) continue;
          offered.erase(one.peer);
          queue.pop_front();
        } else {
          box.pid = getpid();
          box.from = one.memory;
          box.bytes = one.bytes;
          offered[one.peer] = box.posted.load() + 1;
          box.posted.store(offered[one.peer]);
        }
      } else {
        Mailbox& box = meeting.mail[one.peer][comm.rank];
        if (box.posted.load() == box.taken.load()) continue;
        if (box.bytes != one.bytes) {
          std::fprintf(stderr, "stand-in NCCL: rank %d sends %zu bytes, rank %d receives %zu\n",
                       one.peer, box.bytes, comm.rank, one.bytes);
          std::abort();
        }
        if (!Read(comm, box.pid, box.from, one.memory, one.bytes)) return true;
        box.taken.store(box.taken.load() + 1);
        queue.pop_front();
      }
    }
    return std::all_of(open.begin(), open.end(),
                       [](const auto& one) { return one.second.empty(); });
  });
  (void)done;  // otherwise it was aborted
}

// The calls between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<std::tuple<ncclComm*, cudaStream_t, std::vector<Collective>, std::vector<Message>>>
      calls;
};
thread_local Group group;

std::tuple<ncclComm*, cudaStream_t, std::vector<Collective>, std::vector<Message>>& CallsOf(
    ncclComm* comm, cudaStream_t stream) {
  for (auto& one : group.calls) {
    if (std::get<0>(one) == comm && std::get<1>(one) == stream) return one;
  }
  return group.calls.emplace_back(comm, stream, std::vector<Collective>{}, std::vector<Message>{});
}

ncclResult_t Flush() {
  for (auto& [comm, stream, collectives, messages] : group.calls) {
    // As NCCL does, in the order of the calls, also where streams differ.
    std::shared_ptr<standin::Point> before, end;
    if (!standin::IsCapturing(stream)) {
      before = comm->last;
      end = comm->last = std::make_shared<standin::Point>();
    }
    standin::Enqueue(
        stream,
        [comm = comm, collectives = collectives, messages = messages, before, end] {
          if (before != nullptr) before->Wait();
          for (const Collective& one : collectives) Perform(*comm, one);
          if (!messages.empty()) Exchange(*comm, messages);
          if (end != nullptr) end->Reach();
        },
        true);
  }
  group.calls.clear();
  return ncclSuccess;
}

ncclResult_t Check(const ncclComm* comm, const void* memory) {
  if (comm == nullptr || comm->aborted) return ncclInvalidArgument;
  if (memory != nullptr && !standin::IsPinned(memory)) {
    std::fprintf(stderr, "stand-in NCCL: rank %d gives memory that is not the device's\n",
                 comm->rank);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t Add(ncclComm* comm,
                 cudaStream_t stream,
                 const char* name,
                 size_t count,
                 ncclDataType_t type,
                 int op,
                 int root,
                 const void* from,
                 void* to,
                 bool reduces,
                 std::vector<Part> parts) {
  if (Check(comm, from) != ncclSuccess || Check(comm, to) != ncclSuccess)
    return ncclInvalidArgument;
  Collective one{.call = {.name = "", .count = count, .type = type, .op = op, .root = root},
                 .from = from,
                 .to = to,
                 .reduces = reduces,
                 .parts = std::move(parts)};
  standin::Log(std::string("nccl") + name);
  std::strncpy(one.call.name, name, sizeof one.call.name - 1);
  std::get<2>(CallsOf(comm, stream)).push_back(std::move(one));
  return group.depth == 0 ? Flush() : ncclSuccess;
}

ncclResult_t AddMessage(ncclComm* comm, cudaStream_t stream, Message message) {
  if (Check(comm, message.memory) != ncclSuccess) return ncclInvalidArgument;
  if (message.peer < 0 || message.peer >= comm->size) return ncclInvalidArgument;
  standin::Log(message.sends ? "ncclSend" : "ncclRecv");
  std::get<3>(CallsOf(comm, stream)).push_back(message);
  return group.depth == 0 ? Flush() : ncclSuccess;
}

std::vector<Part> EachRank(const ncclComm* comm, size_t offset, size_t bytes) {
  std::vector<Part> parts;
  for (int rank = 0; comm != nullptr && rank < comm->size; ++rank)
    parts.push_back({offset, bytes, rank});
  return parts;
}

ncclResult_t Join(const std::string& id, int size, int rank, ncclComm** out) {
  if (size > kMost || rank < 0 || rank >= size) return ncclInvalidArgument;
  const std::string name = "/standin-" + id;
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Meeting)) != 0) return ncclSystemError;
  void* const memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return ncclSystemError;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // others may read this process
  auto* const comm = new ncclComm;
  comm->meeting = static_cast<Meeting*>(memory);
  comm->rank = rank;
  comm->size = size;
  comm->id = id;
  comm->meeting->joined.fetch_add(1);
  Until(*comm, [&] { return comm->meeting->joined.load() >= size; });
  shm_unlink(name.c_str());
  *out = comm;
  return ncclSuccess;
}

std::string TextOf(const ncclUniqueId& id) {
  return {id.internal, strnlen(id.internal, 32)};
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id->internal, 0, sizeof id->internal);
  std::snprintf(id->internal, sizeof id->internal, "%08x%08x%08x", random(), random(), random());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  return Join(TextOf(id), size, rank, comm);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return Join(TextOf(id), size, rank, comm);
}
ncclResult_t ncclCommInitRankScalable(
    ncclComm_t* comm, int size, int rank, int, ncclUniqueId* ids, ncclConfig_t*) {
  return Join(TextOf(ids[0]), size, rank, comm);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  Meeting& meeting = *comm->meeting;
  const int number = ++comm->splits;
  meeting.color[comm->rank] = color;
  meeting.key[comm->rank] = key;
  meeting.splits[comm->rank].store(2 * number - 1);
  for (int rank = 0; rank < comm->size; ++rank) {
    if (!Until(*comm, [&] { return meeting.splits[rank].load() >= 2 * number - 1; }))
      return ncclInternalError;
  }
  int rank = 0, size = 0;
  for (int other = 0; other < comm->size; ++other) {
    if (meeting.color[other] != color) continue;
    ++size;
    if (std::pair(meeting.key[other], other) < std::pair(key, comm->rank)) ++rank;
  }
  meeting.splits[comm->rank].store(2 * number);
  for (int other = 0; other < comm->size; ++other) {
    if (!Until(*comm, [&] { return meeting.splits[other].load() >= 2 * number; }))
      return ncclInternalError;
  }
  *out = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  return Join(comm->id + "." + std::to_string(number) + "." + std::to_string(color), size, rank,
              out);
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t) {
  return ncclSuccess;
}  // a stream's thread may still use it
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm != nullptr) comm->aborted = true;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->error;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess           ? "no error"
         : result == ncclRemoteError     ? "remote process exited or there was a network error"
         : result == ncclInvalidArgument ? "invalid argument"
                                         : "not supported by the stand-in";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t, void** handle) {
  *handle = memory;
  return Check(comm, memory);
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclRedOpCreatePreMulSum(
    ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t, ncclComm_t) {
  static int next = ncclNumOps;
  const std::lock_guard lock(factors_mutex);
  factors[next] = standin::NumberOf(scalar, type);
  *op = static_cast<ncclRedOp_t>(next++);
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
  return ncclSuccess;
}  // queued calls may still use it

ncclResult_t ncclAllReduce(const void* from,
                           void* to,
                           size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return Add(comm, stream, "AllReduce", count, type, op, 0, from, to, true,
             EachRank(comm, 0, count * standin::SizeOf(type)));
}
ncclResult_t ncclReduce(const void* from,
                        void* to,
                        size_t count,
                        ncclDataType_t type,
                        ncclRedOp_t op,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  const bool mine = comm != nullptr && comm->rank == root;
  return Add(comm, stream, "Reduce", count, type, op, root, from, mine ? to : nullptr, true,
             mine ? EachRank(comm, 0, count * standin::SizeOf(type)) : std::vector<Part>{});
}
ncclResult_t ncclBroadcast(const void* from,
                           void* to,
                           size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  const bool mine = comm != nullptr && comm->rank == root;
  return Add(comm, stream, "Broadcast", count, type, 0, root, mine ? from : nullptr, to, false,
             {{0, count * standin::SizeOf(type), root}});
}
ncclResult_t ncclBcast(void* memory,
                       size_t count,
                       ncclDataType_t type,
                       int root,
                       ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(memory, memory, count, type, root, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from,
                               void* to,
                               size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t op,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  const size_t bytes = count * standin::SizeOf(type);
  const size_t rank = comm == nullptr ? 0 : static_cast<size_t>(comm->rank);
  return Add(comm, stream, "ReduceScatter", count, type, op, 0, from, to, true,
             EachRank(comm, rank * bytes, bytes));
}
ncclResult_t ncclAllGather(const void* from,
                           void* to,
                           size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return Add(comm, stream, "AllGather", count, type, 0, 0, from, to, false,
             EachRank(comm, 0, count * standin::SizeOf(type)));
}
ncclResult_t ncclAlltoAll(const void* from,
                          void* to,
                          size_t count,
                          ncclDataType_t type,
                          ncclComm_t comm,
                          cudaStream_t stream) {
  const size_t bytes = count * standin::SizeOf(type);
  const size_t rank = comm == nullptr ? 0 : static_cast<size_t>(comm->rank);
  return Add(comm, stream, "AlltoAll", count, type, 0, 0, from, to, false,
             EachRank(comm, rank * bytes, bytes));
}
ncclResult_t ncclSend(const void* from,
                      size_t count,
                      ncclDataType_t type,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return AddMessage(comm, stream,
                    {true, peer, const_cast<void*>(from), count * standin::SizeOf(type)});
}
ncclResult_t ncclRecv(
    void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return AddMessage(comm, stream, {false, peer, to, count * standin::SizeOf(type)});
}
ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  return --group.depth == 0 ? Flush() : ncclSuccess;
}
}
