// Keys scoped by a prefix: key k becomes "prefix/k", as torch's PrefixStore.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/store/store.h"

namespace ddprun::rendezvous {

// As thread-safe as the store below it.
class PrefixStore : public Store {
 public:
  PrefixStore(std::string_view prefix, std::shared_ptr<Store> store);

  Status Set(std::string_view key, std::string_view value, Deadline deadline) override;
  Result<std::string> Get(std::string_view key, Deadline deadline) override;
  Result<int64_t> Add(std::string_view key, int64_t delta, Deadline deadline) override;
  Result<std::string> CompareSet(std::string_view key,
                                 std::string_view expected,
                                 std::string_view desired,
                                 Deadline deadline) override;
  Status Wait(std::span<const std::string> keys, Deadline deadline) override;
  Result<bool> Check(std::span<const std::string> keys, Deadline deadline) override;
  Result<bool> Delete(std::string_view key, Deadline deadline) override;
  Result<std::vector<std::string>> MultiGet(std::span<const std::string> keys,
                                            Deadline deadline) override;
  Status MultiSet(std::span<const std::string> keys,
                  std::span<const std::string> values,
                  Deadline deadline) override;
  Result<int64_t> NumKeys(Deadline deadline) override;

 private:
  std::string Join(std::string_view key) const;
  std::vector<std::string> Join(std::span<const std::string> keys) const;

  const std::string prefix_;  // with its slash
  const std::shared_ptr<Store> store_;
};

}  // namespace ddprun::rendezvous
