// People ask a running run for a save or for its end, by a file in its folder.
#pragma once

#include <chrono>
#include <string>

namespace ddprun::trainer {

// On rank 0, which has the folder. The folder's permissions decide who may ask. One thread.
class RunRequests {
 public:
  explicit RunRequests(std::string folder) : folder_(std::move(folder)) {}

  struct Asked {
    bool save = false;
    bool stop = false;
  };
  // Looks for the files, at most once a second.
  Asked Look();
  // A save begins now: removes the request for it, if Look() has found one.
  void NoteSave();
  // Removes all requests, because the run ends or a user starts it again.
  void Remove();
  // Returns who asked for the stop: "USER asked for it (runs/mlp/stop)".
  std::string StopText() const;

 private:
  std::string PathOf(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
  Asked asked_;
  std::string asker_;  // the owner of the stop file
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace ddprun::trainer
