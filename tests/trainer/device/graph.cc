#include "tests/trainer/device/graph.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "tests/trainer/device/allocator.h"
#include "tests/trainer/device/generator.h"
#include "tests/trainer/device/pinned_memory.h"

namespace ddprun::simulated {
namespace {

// Under BookLock().
std::array<Capture*, kDevices> captures = {};
std::atomic<int64_t> replays = 0;

// Under BookLock().
uint64_t OwnerOf(const std::byte* address) {
  if (IsPinned(address)) return PinnedOwner(address);
  const Block* const block = BlockAt(address);
  return block != nullptr && block->in_use ? block->owner : 0;
}

class Graph final : public trainer::DeviceGraph {
 public:
  explicit Graph(c10::Device device) {
    static std::atomic<uint64_t> ids = 0;
    capture_.id = ++ids;
    capture_.device = device.index();
  }
  ~Graph() override {
    Leave();
    ReleasePool(capture_.device, capture_.id);
  }

  void Begin() override {
    const c10::Stream origin = CurrentStream(capture_.device);
    const auto lock = BookLock();
    if (CaptureOn(capture_.device) != nullptr) capture_.Refuse("another graph is captured");
    if (origin.id() == 0) capture_.Refuse("the default stream cannot be captured");
    capture_.thread = std::this_thread::get_id();
    capture_.origin = IndexOf(origin);
    capture_.streams = {capture_.origin};
    At() = &capture_;
  }

  void End() override {
    Leave();
    const auto lock = BookLock();
    if (!capture_.broken.empty()) capture_.Refuse("a rule was broken, " + capture_.broken);
    if (IndexOf(CurrentStream(capture_.device)) != capture_.origin) {
      capture_.Refuse("it ends on another stream than it began on");
    }
    const VectorClock& clock = ClockOf(capture_.origin);
    for (const size_t stream : capture_.streams) {
      if (clock.times[stream] >= ClockOf(stream).times[stream]) continue;
      capture_.Refuse(StreamName(stream) + " has joined and nobody has waited for it");
    }
    functions_ = std::make_shared<const Functions>(std::move(capture_.functions));
  }

  void Replay() override {
    TORCH_CHECK(functions_ != nullptr, "the graph has not been captured");
    const Doing doing("a replay of a graph");
    std::vector<Use> uses;
    {
      const auto lock = BookLock();
      for (const auto& [address, owner] : capture_.owners) {
        if (OwnerOf(address) != owner) {
          capture_.Refuse("it uses memory that has been freed since it was captured");
        }
      }
      for (const auto& [ends, writes] : capture_.uses) {
        uses.push_back({ends.first, ends.second, writes});
      }
    }
    std::function<void()> run = [functions = functions_] {
      for (const auto& function : *functions) function();
    };
    for (const at::Generator& one : capture_.generators) run = Drawing(one, std::move(run));
    QueueReplay(CurrentStream(capture_.device), uses, capture_.id, std::move(run));
    ++replays;
  }

 private:
  using Functions = std::vector<std::function<void()>>;

  Capture*& At() { return captures[static_cast<size_t>(capture_.device)]; }
  void Leave() {
    const auto lock = BookLock();
    if (At() == &capture_) At() = nullptr;
  }

  Capture capture_;
  std::shared_ptr<const Functions> functions_;
};

}  // namespace

std::unique_ptr<trainer::DeviceGraph> MakeGraph(c10::Device device) {
  return std::make_unique<Graph>(device);
}

int64_t TakeReplays() {
  return replays.exchange(0);
}

void Capture::Add(const std::vector<Use>& of_function, std::function<void()> function) {
  functions.push_back(std::move(function));
  for (const Use& use : of_function) {
    bool& writes = uses[{use.begin, use.end}];
    writes = writes || use.writes;
    const Block* const block = BlockAt(use.begin);
    if (block->pool != id) owners[block->begin] = block->owner;
  }
}

void Capture::Join(const c10::Stream& stream) {
  if (stream.device_index() != device) Refuse(StreamName(stream) + " is of another device");
  if (stream.id() == 0) Refuse("the default stream cannot be captured");
  streams.insert(IndexOf(stream));
}

void Capture::Refuse(const std::string& what) {
  if (broken.empty()) broken = what;
  throw DeviceError("graph of device " + std::to_string(device) + ": " + what + "\n  " +
                    Doing::Operation() + ", " + Place().Text());
}

Capture* CaptureOn(int device) {
  return captures[static_cast<size_t>(device)];
}

Capture* CaptureOf(size_t stream) {
  Capture* const capture = captures[stream / kStreamsPerDevice];
  return capture != nullptr && capture->streams.contains(stream) ? capture : nullptr;
}

void RefuseInCapture(int device, const std::string& what) {
  const auto lock = BookLock();
  Capture* const capture = CaptureOn(device);
  if (capture == nullptr) return;
  const bool is_of_it = capture->streams.contains(IndexOf(CurrentStream(device)));
  if (is_of_it || capture->thread == std::this_thread::get_id()) {
    capture->Refuse(what + " while it is captured");
  }
}

bool CapturesDraw(const at::Generator& generator) {
  const auto lock = BookLock();
  Capture* const capture = CaptureOf(IndexOf(CurrentStream(generator.device().index())));
  if (capture == nullptr) return false;
  auto& all = capture->generators;
  if (std::ranges::find(all, generator) == all.end()) all.push_back(generator);
  return true;
}

bool CapturesRead(int device, const std::byte* pinned) {
  const auto lock = BookLock();
  Capture* const capture = CaptureOf(IndexOf(CurrentStream(device)));
  if (capture == nullptr) return false;
  capture->owners[pinned] = PinnedOwner(pinned);
  return true;
}

}  // namespace ddprun::simulated
