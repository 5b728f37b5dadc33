// Prints the names of a node list, one a line, for the comparison with scontrol.
#include <cstdio>
#include <string>

#include <ddprun/error.h>
#include "base/node_list.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto names = ddprun::ParseNodeList(argv[1], "the argument");
  if (!names) {
    std::fputs(ddprun::Render(names.error()).c_str(), stderr);
    return 1;
  }
  for (const std::string& name : *names) std::puts(name.c_str());
  return 0;
}
