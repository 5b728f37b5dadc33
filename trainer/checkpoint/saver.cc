#include "trainer/checkpoint/saver.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "trainer/checkpoint/finite.h"
#include "trainer/checkpoint/index.h"
#include "trainer/checkpoint/plan.h"
#include "trainer/checkpoint/shard_copy.h"
#include "trainer/checkpoint/write_checkpoint.h"

namespace ddprun::trainer {

namespace {

using SaverClock = std::chrono::steady_clock;

// The writer gets a tenth of a computing thread's weight. Copying has full weight, because the
// optimizer waits for it.
constexpr int kWriterNice = 10;

double SecondsSince(SaverClock::time_point begin) {
  return std::chrono::duration<double>(SaverClock::now() - begin).count();
}

Error SaveError(int64_t step, const std::string& what) {
  return Error{.title = "CHECKPOINT NOT SAVED",
               .where = "step " + std::to_string(step),
               .what = what,
               .page = "checkpoint-not-saved"};
}

bool IsWord(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
}

}  // namespace

class BackgroundSaver::Impl {
 public:
  explicit Impl(SaverOptions options) : options_(std::move(options)), buffer_(options_.pinned) {}
  ~Impl() {
    abandoned_ = true;
    Join();
  }

  void Begin(StateDict state, SaveRequest request) {
    Collect();
    abandoned_ = false;
    begin_ = SaverClock::now();
    outcome_ = {};
    outcome_.step = request.step;
    state_ = std::move(state);
    stall_seconds_ = 0;
    writing_ = {};
    ++begun_;  // counted on all ranks, even if the save fails, so that attempts have equal names
    try {
      Prepare(std::move(request));
      Start([this] { Save(); });
    } catch (const Failure& failure) {
      Fail(failure.error());
    } catch (const std::exception& error) {
      Fail(SaveError(outcome_.step, error.what()));
    }
    saving_ = true;
  }

  // Calls `finish` with the running copy, and adds the time to the stall.
  template <typename Finish>
  double Wait(const Finish& finish) {
    if (!copy_) return 0;
    const SaverClock::time_point begin = SaverClock::now();
    finish(*copy_);
    const double seconds = SecondsSince(begin);
    stall_seconds_ += seconds;
    return seconds;
  }

  bool busy() const { return saving_ && thread_.joinable() && !done_; }

  std::optional<SaveOutcome> Poll() {
    if (saving_ && !busy()) Collect();
    if (outcomes_.empty()) return std::nullopt;
    SaveOutcome outcome = std::move(outcomes_.front());
    outcomes_.pop_front();
    return outcome;
  }
  std::optional<SaveOutcome> Finish() {
    Collect();
    return Poll();
  }
  void Abandon() { abandoned_ = true; }

  void Reserve(const StateDict& state) {
    Collect();
    size_t bytes = 0;
    bool of_device = false;
    for (const PlannedPiece& piece : PlanShard(state.tensors, options_.part)) {
      const at::Tensor rows = RowsOf(state.tensors[piece.tensor], piece);
      bytes += rows.nbytes();
      of_device = of_device || !rows.is_cpu();
    }
    buffer_.Reserve(bytes, of_device);
    stop_allocating_ = false;
    Start([this] { buffer_.AllocatePages(stop_allocating_); });
  }

 private:
  void Prepare(SaveRequest request) {
    if (!IsWord(request.attempt)) {
      throw Failure(SaveError(request.step,
                              "The attempt \"" + request.attempt +
                                  "\" is not a valid name: use letters, digits, \"-\" and \"_\"."));
    }
    writing_.options = options_;
    writing_.request = std::move(request);
    writing_.request.attempt += "-" + std::to_string(begun_);
    const std::vector<PlannedPiece> pieces = PlanShard(state_.tensors, options_.part);
    writing_.table = TableOf(state_, pieces, ShardName(options_.part));
    copy_.emplace(state_.tensors, pieces, buffer_);
    writing_.header = SafetensorsHeader(copy_->items());
    writing_.bytes = {buffer_.data(), copy_->bytes()};
  }

  void Start(std::function<void()> work) {
    done_ = false;
    thread_ = std::thread([this, work = std::move(work)] {
      work();
      done_ = true;
    });
  }

  void Save() {
    try {
      copy_->Finish();
      copy_->WaitForDevice();
      outcome_.copy_seconds = SecondsSince(begin_);
      if (const std::string error = copy_->error(); !error.empty()) {
        return Fail(SaveError(outcome_.step, "Copying the state failed: " + error));
      }
      if (const std::string name = FirstNotFinite(); !name.empty()) {
        return Fail(
            SaveError(outcome_.step, "\"" + name + "\" has a number that is NaN or infinite."));
      }
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
      Status status = WriteCheckpoint(writing_, abandoned_, outcome_);
      outcome_.seconds = SecondsSince(begin_);
      if (!status.ok()) return Fail(std::move(status).error());
    } catch (const std::exception& error) {
      Fail(SaveError(outcome_.step, error.what()));
    }
  }

  // Returns the first tensor of SaveRequest::finite that is not finite; "" means none.
  std::string FirstNotFinite() const {
    std::string_view rest = writing_.bytes;
    for (const SafetensorsItem& item : copy_->items()) {
      int64_t count = 1;
      for (const int64_t size : item.shape) count *= size;
      const size_t bytes = static_cast<size_t>(count) * c10::elementSize(item.dtype);
      const bool wanted = writing_.request.finite.contains(item.name);
      if (wanted && !AllFinite(rest.substr(0, bytes), item.dtype)) return item.name;
      rest.remove_prefix(bytes);
    }
    return "";
  }

  void Fail(Error error) {
    const bool committed = !outcome_.path.empty();
    const bool named = !writing_.request.attempt.empty();
    if (named && !committed) AbandonShard(writing_, error);
    outcome_.error = std::move(error);
    outcome_.seconds = SecondsSince(begin_);
  }

  void Join() {
    stop_allocating_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Waits for the running save, and keeps its outcome.
  void Collect() {
    Join();
    if (!std::exchange(saving_, false)) return;
    outcome_.stall_seconds = stall_seconds_;
    outcomes_.push_back(std::move(outcome_));
    copy_.reset();
    state_ = {};
  }

  const SaverOptions options_;
  HostBuffer buffer_;
  std::deque<SaveOutcome> outcomes_;
  int64_t begun_ = 0;

  // State of the running save. Only its thread uses it until done_, except stall_seconds_.
  bool saving_ = false;
  SaverClock::time_point begin_ = {};
  StateDict state_;
  std::optional<ShardCopy> copy_;
  PreparedShard writing_;
  SaveOutcome outcome_;
  double stall_seconds_ = 0;

  std::atomic<bool> stop_allocating_ = false;
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

BackgroundSaver::BackgroundSaver(SaverOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
BackgroundSaver::~BackgroundSaver() = default;

void BackgroundSaver::Begin(StateDict state, SaveRequest request) {
  impl_->Begin(std::move(state), std::move(request));
}
double BackgroundSaver::WaitForCopy() {
  return impl_->Wait([](ShardCopy& copy) {
    copy.Finish();
    copy.MakeStreamWait();
  });
}
double BackgroundSaver::WaitForCopyOf(std::span<const at::Tensor> tensors) {
  return impl_->Wait([&](ShardCopy& copy) {
    copy.Finish(tensors);
    // Skips this for host tensors, because all later work of the device would wait for its copies.
    const auto on_device = [](const at::Tensor& tensor) { return !tensor.is_cpu(); };
    if (std::ranges::any_of(tensors, on_device)) copy.MakeStreamWait();
  });
}
bool BackgroundSaver::busy() const {
  return impl_->busy();
}
std::optional<SaveOutcome> BackgroundSaver::Poll() {
  return impl_->Poll();
}
std::optional<SaveOutcome> BackgroundSaver::Finish() {
  return impl_->Finish();
}
void BackgroundSaver::Abandon() {
  impl_->Abandon();
}
void BackgroundSaver::Reserve(const StateDict& state) {
  impl_->Reserve(state);
}

SaveOutcome SaveCheckpoint(const SaverOptions& options, StateDict state, SaveRequest request) {
  BackgroundSaver saver(options);
  saver.Begin(std::move(state), std::move(request));
  return *saver.Finish();
}

}  // namespace ddprun::trainer
