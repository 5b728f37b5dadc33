#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "launcher/store/store_command.h"
#include "launcher/store/store_waits.h"
#include "rendezvous/store/tcp_store.h"

namespace ddprun::launcher {

namespace {

using rendezvous::Deadline;
using rendezvous::DeadlineAfter;
using rendezvous::TcpStore;
using std::chrono::milliseconds;
using Verb = StoreQueryOptions::Verb;

// A store answers at once, except to a wait.
constexpr milliseconds kAnswerTimeout{5'000};
// Practically no limit, but small enough for the clock.
constexpr milliseconds kNoLimit{std::chrono::hours(24 * 365)};

Error NoSuchKey(const StoreQueryOptions& options) {
  return {.title = "NO SUCH KEY",
          .where = "store " + ToString(options.endpoint),
          .what = "The store has no key \"" + options.keys.front() + "\".",
          .hint = "Show its keys with: ddprun store list --endpoint " + ToString(options.endpoint) +
                  ".",
          .page = "no-such-key"};
}

void Print(std::FILE* out, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out);
  if (!text.ends_with('\n')) std::fputc('\n', out);
}

Result<int> Get(TcpStore& store, const StoreQueryOptions& options, std::FILE* out) {
  const Deadline soon = DeadlineAfter(kAnswerTimeout);
  if (!options.timeout) {
    DDPRUN_ASSIGN(const bool there, store.Check(options.keys, soon));
    if (!there) return NoSuchKey(options);
  }
  const Deadline deadline = options.timeout ? DeadlineAfter(*options.timeout) : soon;
  DDPRUN_ASSIGN(const std::string value, store.Get(options.keys.front(), deadline));
  // Programs get the value unchanged. A terminal does not, because any process may have set it.
  Print(out, isatty(fileno(out)) == 1 ? MakePrintable(value) : value);
  return 0;
}

Result<int> Set(TcpStore& store, const StoreQueryOptions& options) {
  const Deadline soon = DeadlineAfter(kAnswerTimeout);
  DDPRUN_TRY(store.Set(options.keys.front(), options.value, soon));
  // SET has no answer; the answer to CHECK shows that the server has done it.
  DDPRUN_ASSIGN(const bool there, store.Check(options.keys, soon));
  return there ? 0 : 1;
}

Result<int> List(TcpStore& store, std::FILE* out) {
  DDPRUN_ASSIGN(std::vector<std::string> keys, store.ListKeys(DeadlineAfter(kAnswerTimeout)));
  std::ranges::sort(keys);
  for (const std::string& key : keys) Print(out, KeyText(key));
  return 0;
}

}  // namespace

Result<int> QueryStore(const StoreQueryOptions& options, std::FILE* out) {
  DDPRUN_ASSIGN(const std::unique_ptr<TcpStore> store,
                TcpStore::Connect(options.endpoint, DeadlineAfter(kAnswerTimeout)));
  const Deadline soon = DeadlineAfter(kAnswerTimeout);
  switch (options.verb) {
    case Verb::kGet:
      return Get(*store, options, out);
    case Verb::kSet:
      return Set(*store, options);
    case Verb::kWait:
      DDPRUN_TRY(store->Wait(options.keys, DeadlineAfter(options.timeout.value_or(kNoLimit))));
      return 0;
    case Verb::kList:
      return List(*store, out);
    case Verb::kDelete: {
      DDPRUN_ASSIGN(const bool existed, store->Delete(options.keys.front(), soon));
      if (!existed) return NoSuchKey(options);
      return 0;
    }
    case Verb::kStatus: {
      DDPRUN_ASSIGN(const auto status, store->ServerStatus(soon));
      Print(out, StatusText(status));
      return 0;
    }
  }
  return 0;
}

}  // namespace ddprun::launcher
