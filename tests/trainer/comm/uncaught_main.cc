// A user's program that catches nothing: rank 1 ends as the argument says, the others wait for it.
#include <ATen/Functions.h>

#include <csignal>
#include <string_view>

#include "trainer/comm/bootstrap.h"

int main(int /*argc*/, char** argv) {
  const std::string_view fault = argv[1];
  const auto group = ddprun::init_process_group(std::chrono::seconds(60));
  if (group->getRank() == 1 && fault == "crash") raise(SIGSEGV);
  if (group->getRank() == 1 && fault == "libtorch") at::zeros({2}).view({3});
  if (group->getRank() == 1 && fault == "failure") {
    std::vector<at::Tensor> two = {at::zeros({1}), at::zeros({1})};
    group->allreduce(two, {});
  }
  group->barrier({})->wait();
  return 0;
}
