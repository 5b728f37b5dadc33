// Your own training loop with checkpoints. It saves beside the steps and stops when it is asked to.
// When it is started again, it resumes from the newest checkpoint, with any number of ranks.
//
// checkpointer [FOLDER [STEPS]]: prints a checksum of the final weights and the optimizer's state.
// It is the same whether the program was interrupted or not.
#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <ddprun/checkpointer.h>
#include <ddprun/data_parallel.h>
#include <ddprun/error.h>
#include <ddprun/process_group.h>

struct Net : torch::nn::Module {
  Net() {
    at::manual_seed(1);
    hidden = register_parameter("hidden", at::randn({16, 32}) / 4);
    out = register_parameter("out", at::randn({32, 4}) / 6);
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::matmul(at::relu(at::matmul(x, hidden)), out);
  }
  at::Tensor hidden, out;
};

int Train(const std::string& folder, int64_t steps) {
  ddprun::install_stop_handler();
  const auto group = ddprun::init_process_group();
  ddprun::DistributedDataParallel<Net> net(std::make_shared<Net>(), group);
  torch::optim::AdamW optimizer(net.module().parameters(), 0.01);

  int64_t samples = 0;  // checkpoints have it, too
  ddprun::Checkpointer checkpoints(net.module(), optimizer, group, {.folder = folder});
  checkpoints.track("samples", samples);
  int64_t step = checkpoints.restore();
  if (group->getRank() == 0) {
    std::printf("from step %lld, restarted %lld times\n", static_cast<long long>(step),
                static_cast<long long>(ddprun::restart_count()));
    std::fflush(stdout);
  }

  while (step < steps) {
    at::manual_seed(static_cast<uint64_t>(step));  // the data of a step depends only on the step
    const at::Tensor x = at::randn({8, 16});
    optimizer.zero_grad();
    at::mse_loss(net(x), x.narrow(1, 0, 4)).backward();
    checkpoints.wait_before_update();
    optimizer.step();
    samples += 8;
    ++step;
    const bool stop = checkpoints.should_stop();
    if (stop || step % 50 == 0) checkpoints.save(step);
    if (const auto outcome = stop ? checkpoints.finish() : checkpoints.poll()) {
      if (outcome->error) std::fputs(ddprun::Render(*outcome->error).c_str(), stderr);
    }
    if (stop) return ddprun::kStoppedStatus;
  }

  double sum = static_cast<double>(samples);
  for (const at::Tensor& tensor : net.module().parameters()) {
    sum += tensor.detach().to(at::kDouble).abs().sum().item<double>();
  }
  if (group->getRank() == 0) {
    std::printf("after step %lld: %a\n", static_cast<long long>(step), sum);
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return Train(argc > 1 ? argv[1] : "checkpoints", argc > 2 ? std::atoll(argv[2]) : 500);
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return ddprun::ExitStatus(failure.error().code);
  }
}
