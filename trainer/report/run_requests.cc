#include "trainer/report/run_requests.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/run_requests.h"

namespace ddprun::trainer {

namespace {

constexpr std::chrono::seconds kBetweenLooks{1};

std::string UserName(uid_t user) {
  const passwd* const entry = ::getpwuid(user);
  return entry != nullptr ? entry->pw_name : "user " + std::to_string(user);
}

}  // namespace

RunRequests::Asked RunRequests::Look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return asked_;
  next_look_ = now + kBetweenLooks;
  struct stat info {};
  asked_.save = ::lstat(PathOf(kSaveRequest).c_str(), &info) == 0 && S_ISREG(info.st_mode);
  asked_.stop = ::lstat(PathOf(kStopRequest).c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (asked_.stop && asker_.empty()) asker_ = UserName(info.st_uid);
  return asked_;
}

void RunRequests::NoteSave() {
  if (!asked_.save) return;
  asked_.save = false;
  ::unlink(PathOf(kSaveRequest).c_str());
}

void RunRequests::Remove() {
  asked_ = {};
  for (const char* const name : {kSaveRequest, kStopRequest}) {
    struct stat info {};
    if (::lstat(PathOf(name).c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      ::unlink(PathOf(name).c_str());
    }
  }
}

std::string RunRequests::StopText() const {
  return asker_ + " asked for it (" + PathOf(kStopRequest) + ")";
}

}  // namespace ddprun::trainer
