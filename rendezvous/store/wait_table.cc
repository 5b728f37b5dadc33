#include "rendezvous/store/wait_table.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

namespace {

// Bytes of a Place, a pointer, and their share of a map's node.
constexpr size_t kBytesPerKey = 64;

}  // namespace

size_t WaitTable::CostOf(const std::vector<std::string>& keys) {
  size_t bytes = 0;
  for (const std::string& key : keys) bytes += key.size() + kBytesPerKey;
  return bytes;
}

void WaitTable::Add(Keys& keys, const std::string& key, ConnectionId connection, Parked& parked) {
  const auto [entry, is_new] = keys.try_emplace(key);
  if (is_new) cost_bytes_ += key.size();
  cost_bytes_ += kBytesPerKey;
  entry->second.places.push_back({parked.ticket, connection});
  ++entry->second.references;
  ++parked.missing;
  parked.keys.push_back(&*entry);
}

void WaitTable::Park(ConnectionId connection, std::vector<std::string> keys) {
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  Parked& parked = parked_[connection];
  parked.ticket = next_ticket_++;
  parked.keys.reserve(keys.size());
  for (const std::string& key : keys) Add(keys_, key, connection, parked);
}

void WaitTable::ParkAtBarrier(ConnectionId connection, const std::string& key) {
  Parked& parked = parked_[connection];
  parked.ticket = next_ticket_++;
  parked.barrier = true;
  Add(barriers_, key, connection, parked);
}

// Forgets a connection. REQUIRES: none of its keys has a place for it.
void WaitTable::Release(std::unordered_map<ConnectionId, Parked>::iterator parked) {
  Keys& keys = parked->second.barrier ? barriers_ : keys_;
  for (Keys::value_type* const key : parked->second.keys) {
    cost_bytes_ -= kBytesPerKey;
    if (--key->second.references > 0) continue;
    cost_bytes_ -= key->first.size();
    keys.erase(keys.find(key->first));
  }
  parked_.erase(parked);
}

void WaitTable::Remove(ConnectionId connection) {
  const auto found = parked_.find(connection);
  if (found == parked_.end()) return;
  for (Keys::value_type* const key : found->second.keys) {
    std::vector<Place>& places = key->second.places;
    const auto place = std::ranges::lower_bound(places, found->second.ticket, {}, &Place::ticket);
    if (place != places.end() && place->ticket == found->second.ticket) places.erase(place);
  }
  Release(found);
}

// One of the connection's keys exists now. Returns true if it was the last one that was missing.
bool WaitTable::Leave(ConnectionId connection) {
  const auto found = parked_.find(connection);
  if (--found->second.missing > 0) return false;
  Release(found);
  return true;
}

void WaitTable::Arrived(const std::string& key, std::vector<ConnectionId>& woken) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (const Place& place : std::exchange(found->second.places, {})) {
    if (Leave(place.connection)) woken.push_back(place.connection);
  }
}

void WaitTable::ArrivedForOne(const std::string& key, std::vector<ConnectionId>& woken) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  // A connection that lacks other keys, too, does not wake, and leaves the element to the next one.
  std::vector<Place>& places = found->second.places;
  const auto only_this = [this](const Place& place) {
    return parked_.at(place.connection).missing == 1;
  };
  auto end = std::ranges::find_if(places, only_this);
  if (end != places.end()) ++end;
  const std::vector<Place> complete(places.begin(), end);
  places.erase(places.begin(), end);
  for (const Place& place : complete) {
    if (Leave(place.connection)) woken.push_back(place.connection);
  }
}

void WaitTable::OpenBarrier(const std::string& key, std::vector<ConnectionId>& woken) {
  const auto found = barriers_.find(key);
  if (found == barriers_.end()) return;
  for (const Place& place : std::exchange(found->second.places, {})) {
    if (Leave(place.connection)) woken.push_back(place.connection);
  }
}

bool WaitTable::at_barrier(ConnectionId connection) const {
  const auto found = parked_.find(connection);
  return found != parked_.end() && found->second.barrier;
}

std::vector<std::string> WaitTable::Missing(ConnectionId connection, size_t most) const {
  std::vector<std::string> missing;
  const auto found = parked_.find(connection);
  if (found == parked_.end()) return missing;
  for (const Keys::value_type* const key : found->second.keys) {  // Park() has sorted them
    if (missing.size() == most) break;
    if (std::ranges::binary_search(key->second.places, found->second.ticket, {}, &Place::ticket)) {
      missing.push_back(key->first);
    }
  }
  return missing;
}

size_t WaitTable::NumMissing(ConnectionId connection) const {
  const auto found = parked_.find(connection);
  return found == parked_.end() ? 0 : found->second.missing;
}

}  // namespace ddprun::rendezvous
