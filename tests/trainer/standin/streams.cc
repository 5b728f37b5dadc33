// CUDA's streams, events and graphs.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>

#include "tests/trainer/standin/device.h"

using namespace standin;

namespace {

std::mutex mutex;
std::set<Stream*> streams;

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  auto* const one = new Stream;
  const std::lock_guard lock(mutex);
  streams.insert(one);
  *stream = reinterpret_cast<cudaStream_t>(one);
  return Say(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return Say(cudaSuccess);
}  // its thread may still need it
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return Say(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (Of(stream)->graph != nullptr)
    return BreakRule(Of(stream)->graph, cudaErrorStreamCaptureUnsupported);
  Of(stream)->Finish();
  return Say(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (Of(stream)->graph != nullptr)
    return BreakRule(Of(stream)->graph, cudaErrorStreamCaptureUnsupported);
  return Of(stream)->IsIdle() ? Say(cudaSuccess) : Say(cudaErrorNotReady);
}
cudaError_t cudaDeviceSynchronize() {
  std::vector<Stream*> all;
  {
    const std::lock_guard lock(mutex);
    all.assign(streams.begin(), streams.end());
  }
  for (Stream* const one : all) {
    if (one->graph == nullptr) one->Finish();
  }
  Of(nullptr)->Finish();
  return Say(cudaSuccess);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback,
                                  void* data,
                                  unsigned) {
  return Queue(stream, "callback", [=] { callback(stream, cudaSuccess, data); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return Say(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return Say(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Event& one = *reinterpret_cast<Event*>(event);
  Stream* const where = Of(stream);
  one.is_captured = where->graph != nullptr;
  one.graph = where->graph;
  one.stream = where;
  one.captured = where->captured;
  one.point = std::make_shared<Point>();
  if (!one.is_captured) where->Run([point = one.point] { point->Reach(); }, false);
  return Say(cudaSuccess);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Event& one = *reinterpret_cast<Event*>(event);
  if (one.is_captured) return Say(cudaErrorCapturedEvent);
  // After an error nothing is reached: each call has the error.
  return one.point == nullptr || one.point->IsReached() || Broken() != 0 ? Say(cudaSuccess)
                                                                         : Say(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Event& one = *reinterpret_cast<Event*>(event);
  if (one.is_captured) return Say(cudaErrorCapturedEvent);
  if (one.point != nullptr && Broken() == 0) one.point->Wait();
  return Say(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const auto begin = reinterpret_cast<Event*>(from)->point,
             end = reinterpret_cast<Event*>(to)->point;
  if (begin == nullptr || end == nullptr) return Say(cudaErrorInvalidResourceHandle);
  if (!begin->IsReached() || !end->IsReached()) return Say(cudaErrorNotReady);
  *milliseconds = static_cast<float>((end->seconds - begin->seconds) * 1000);
  return Say(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Event& one = *reinterpret_cast<Event*>(event);
  Stream* const where = Of(stream);
  if (one.is_captured) {
    const std::shared_ptr<Graph> graph = one.graph.lock();
    if (graph == nullptr || graph->ended) return Say(cudaErrorCapturedEvent);
    if (where->graph == nullptr) {
      where->graph = graph;
      where->captured = where->joined = 0;
      graph->streams.push_back(where);
    }
    if (where != one.stream) one.stream->joined = std::max(one.stream->joined, one.captured);
    ++where->captured;
    return Say(cudaSuccess);
  }
  if (where->graph != nullptr) {
    return one.point == nullptr ? Say(cudaSuccess)
                                : BreakRule(where->graph, cudaErrorStreamCaptureIsolation);
  }
  if (one.point != nullptr && !one.point->IsReached())
    where->Run([point = one.point] { point->Wait(); }, true);
  return Say(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto& graph = Of(stream)->graph;
  *status = graph == nullptr    ? cudaStreamCaptureStatusNone
            : graph->error == 0 ? cudaStreamCaptureStatusActive
                                : cudaStreamCaptureStatusInvalidated;
  return Say(cudaSuccess);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long* id,
                                     cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes,
                                     const cudaGraphEdgeData** edges,
                                     size_t* count) {
  const auto& one = Of(stream)->graph;
  if (id != nullptr && one != nullptr) *id = one->id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(one.get());
  if (nodes != nullptr) *nodes = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode kept = cudaStreamCaptureModeGlobal;
  std::swap(*mode, kept);
  return Say(cudaSuccess);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  static unsigned long long ids = 0;
  Stream* const one = Of(stream);
  if (reinterpret_cast<size_t>(stream) <= 2) return Say(cudaErrorStreamCaptureUnsupported);
  if (one->graph != nullptr) return Say(cudaErrorIllegalState);
  one->Finish();
  one->graph = std::make_shared<Graph>();
  one->graph->id = ++ids;
  one->graph->streams = {one};
  one->captured = one->joined = 0;
  return Say(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  const std::shared_ptr<Graph> graph = Of(stream)->graph;
  *out = nullptr;
  if (graph == nullptr) return Say(cudaErrorIllegalState);
  if (graph->streams.front() != Of(stream))
    return BreakRule(graph, cudaErrorStreamCaptureUnmatched);
  for (Stream* const one : graph->streams) {
    const bool left = one != Of(stream) && one->captured > one->joined + 0;
    if (left && graph->error == 0) graph->error = cudaErrorStreamCaptureUnjoined;
    one->graph = nullptr;
  }
  graph->ended = true;
  graph->streams.clear();
  if (graph->error != 0) {
    const bool at_end = graph->error == cudaErrorStreamCaptureUnjoined;
    return Say(at_end ? cudaErrorStreamCaptureUnjoined : cudaErrorStreamCaptureInvalidated);
  }
  *out = reinterpret_cast<cudaGraph_t>(new std::shared_ptr<Graph>(graph));
  return Say(cudaSuccess);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = (*reinterpret_cast<std::shared_ptr<Graph>*>(graph))->names.size();
  return Say(cudaSuccess);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out,
                                          cudaGraph_t graph,
                                          unsigned long long) {
  *out = reinterpret_cast<cudaGraphExec_t>(
      new std::shared_ptr<Graph>(*reinterpret_cast<std::shared_ptr<Graph>*>(graph)));
  return Say(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::shared_ptr<Graph> graph = *reinterpret_cast<std::shared_ptr<Graph>*>(exec);
  Log("graph of " + std::to_string(graph->names.size()) + " nodes");
  // It may hold collectives, which wait for other ranks.
  return Queue(
      stream, "graph",
      [graph] {
        for (const Work& work : graph->work) work();
      },
      true);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<std::shared_ptr<Graph>*>(graph);
  return Say(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<std::shared_ptr<Graph>*>(exec);
  return Say(cudaSuccess);
}
}
