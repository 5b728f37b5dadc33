// An object of the config that is not ours to read: it is passed on as it stands.
#pragma once

#include <string>

namespace ddprun::trainer {

struct JsonText {
  std::string text = "{}";  // an object; keys sorted, ${NAME} replaced
};

}  // namespace ddprun::trainer
