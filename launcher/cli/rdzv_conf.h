// --rdzv_conf: what it may say.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

// "k=v,k=v" into `out`; false when a key or a value is missing.
bool SplitRdzvConf(std::string_view text, std::map<std::string, std::string>& out);

// Refuses keys that nobody knows and values of the wrong kind. Takes out of `conf` the keys that
// only etcd has, with a line for the user in `notes`.
Status CheckRdzvConf(std::map<std::string, std::string>& conf, std::vector<std::string>& notes);

}  // namespace ddprun::launcher
