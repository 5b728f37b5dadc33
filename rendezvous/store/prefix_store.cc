#include "rendezvous/store/prefix_store.h"

namespace ddprun::rendezvous {

PrefixStore::PrefixStore(std::string_view prefix, std::shared_ptr<Store> store)
    : prefix_(std::string(prefix) + "/"), store_(std::move(store)) {}

std::string PrefixStore::Join(std::string_view key) const {
  return prefix_ + std::string(key);
}

std::vector<std::string> PrefixStore::Join(std::span<const std::string> keys) const {
  std::vector<std::string> joined;
  joined.reserve(keys.size());
  for (const std::string& key : keys) joined.push_back(Join(key));
  return joined;
}

Status PrefixStore::Set(std::string_view key, std::string_view value, Deadline deadline) {
  return store_->Set(Join(key), value, deadline);
}

Result<std::string> PrefixStore::Get(std::string_view key, Deadline deadline) {
  return store_->Get(Join(key), deadline);
}

Result<int64_t> PrefixStore::Add(std::string_view key, int64_t delta, Deadline deadline) {
  return store_->Add(Join(key), delta, deadline);
}

Result<std::string> PrefixStore::CompareSet(std::string_view key,
                                            std::string_view expected,
                                            std::string_view desired,
                                            Deadline deadline) {
  return store_->CompareSet(Join(key), expected, desired, deadline);
}

Status PrefixStore::Wait(std::span<const std::string> keys, Deadline deadline) {
  return store_->Wait(Join(keys), deadline);
}

Result<bool> PrefixStore::Check(std::span<const std::string> keys, Deadline deadline) {
  return store_->Check(Join(keys), deadline);
}

Result<bool> PrefixStore::Delete(std::string_view key, Deadline deadline) {
  return store_->Delete(Join(key), deadline);
}

Result<std::vector<std::string>> PrefixStore::MultiGet(std::span<const std::string> keys,
                                                       Deadline deadline) {
  return store_->MultiGet(Join(keys), deadline);
}

Status PrefixStore::MultiSet(std::span<const std::string> keys,
                             std::span<const std::string> values,
                             Deadline deadline) {
  return store_->MultiSet(Join(keys), values, deadline);
}

Result<int64_t> PrefixStore::NumKeys(Deadline deadline) {
  return store_->NumKeys(deadline);
}

}  // namespace ddprun::rendezvous
